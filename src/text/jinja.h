// A small, strict interpreter for the Jinja of Hugging Face chat templates. It serves to find out what a model
// folder's template does with probe conversations; no training text goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace zt::text {

namespace jinja {
struct Template;
}

// A template is somebody else's program: whatever it does, rendering ends within these.
struct JinjaLimits {
  std::int64_t steps = 2'000'000;        // of evaluation; 64 bytes of text that are made or searched are one
  std::size_t output_bytes = 16u << 20;  // also of any text that is made on the way
};

// Renders as transformers' apply_chat_template does: Jinja 3.1 in its immutable sandbox with trim_blocks,
// lstrip_blocks, loop controls, `generation` blocks (their body is rendered), raise_exception, strftime_now,
// Python's json.dumps as tojson; undefined variables are false and print as nothing. What is not implemented is
// refused by name, never rendered differently: other tags, filters and tests, `*args`, `recursive`, integers
// beyond 64 bits, infinite numbers, upper and lower case outside ASCII, printing objects that have no literal.
// Source: https://jinja.palletsprojects.com/en/stable/templates/
class Jinja {
 public:
  using Variables = nlohmann::ordered_json;  // an object; templates see the order of keys

  // Throws Error(model) with line and column for a syntax error or a construct that is not implemented.
  // At most 256 KiB of UTF-8.
  static Jinja parse(std::string source);

  // Throws Error(model) with line and column for what the template raises itself (raise_exception), type
  // errors, undefined variables used as values, and limits. May be called from several threads.
  std::string render(const Variables& variables, const JinjaLimits& limits = {}) const;

 private:
  explicit Jinja(std::shared_ptr<const jinja::Template> parsed) : template_(std::move(parsed)) {}
  std::shared_ptr<const jinja::Template> template_;
};

}  // namespace zt::text
