// Any bytes as a chat template, rendered with a conversation that has every kind of value. Bit 1 of the first byte:
// the template gets no variables.
#include "base/error.h"
#include "fuzz.h"
#include "text/jinja.h"
#include "text/utf8.h"

using namespace zt;

namespace {

constexpr text::JinjaLimits kLimits = {.steps = 20'000, .output_bytes = 64u << 10};

const text::Jinja::Variables& conversation() {
  static const auto kConversation = text::Jinja::Variables::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": " Größe? \n", "weight": 1.5, "extra": [1, -2, null, true, [], {}]},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1, "y": [2.5, "z"]}}}]},
      {"role": "tool", "content": "3"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 7, "f": false, "e": null})");
  return kConversation;
}

struct Outcome {
  std::string text, fault;
  bool operator==(const Outcome&) const = default;
};

Outcome rendered(const text::Jinja& parsed, const text::Jinja::Variables& variables) {
  Outcome out;
  try {
    out.text = parsed.render(variables, kLimits);
  } catch (const Error& e) {
    FUZZ_CHECK(e.blame() == Blame::model);
    out.fault = e.what();
  }
  FUZZ_CHECK(out.text.size() <= kLimits.output_bytes);
  FUZZ_CHECK(!text::first_invalid_utf8(out.text) && !text::first_invalid_utf8(out.fault));
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, source] = fuzz::input_of(data, size);
  const text::Jinja::Variables variables = choice & 1 ? text::Jinja::Variables::object() : conversation();
  try {
    const text::Jinja parsed = text::Jinja::parse(source);
    const Outcome once = rendered(parsed, variables);
    FUZZ_CHECK(source.find("strftime") != std::string::npos || once == rendered(parsed, variables));
  } catch (const Error& e) {
    FUZZ_CHECK(e.blame() == Blame::model);
    FUZZ_CHECK(!text::first_invalid_utf8(e.what()));
  }
  return 0;
}
