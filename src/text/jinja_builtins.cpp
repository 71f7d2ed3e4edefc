#include "text/jinja_builtins.h"

#include <algorithm>
#include <ctime>

#include "base/text.h"

namespace zt::text::jinja {
namespace {

struct Signature {
  std::vector<std::string> names;
  std::size_t required = 0;
  bool by_name = true;
};

Signature signature_of(const Native& native) {
  Signature out;
  for (std::string name : split(native.parameters, ' ')) {
    if (name.empty()) continue;
    if (name == "/") {
      out.by_name = false;
    } else if (name.back() == '?') {
      name.pop_back();
      out.names.push_back(name);
    } else {
      out.names.push_back(name);
      out.required = out.names.size();
    }
  }
  return out;
}

void bind_by_name(Machine& m, const Native& native, const Signature& signature, const Arguments& given,
                  Items* out) {
  for (const auto& [name, value] : given.named) {
    const auto found = std::find(signature.names.begin(), signature.names.end(), name);
    if (!signature.by_name || found == signature.names.end())
      m.fail(cat(native.name, " takes no argument named ", name));
    Value& slot = (*out)[std::size_t(found - signature.names.begin())];
    if (slot.given()) m.fail(cat(native.name, " is given its argument ", name, " twice"));
    slot = value;
  }
}

// --- globals

Value raise_exception(Machine& m, const Value&, const Items& given) {
  m.fail(cat("the template says: ", str(m, given[0])));
}

std::int64_t whole_argument(Machine& m, const Value& value, const char* what) {
  if (!value.is_whole()) m.fail_type(what, value);
  return value.whole();
}

// Python's sandbox refuses more than 100,000 elements.
Value range(Machine& m, const Value&, const Items& given) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40, kMost = 100'000;
  std::int64_t start = whole_argument(m, given[0], "range()"), stop = start;
  if (given[1].given())
    stop = whole_argument(m, given[1], "range()");
  else
    start = 0;
  const std::int64_t step = given[2].given() ? whole_argument(m, given[2], "range()") : 1;
  if (step == 0) m.fail("range() can't have step 0");
  for (const std::int64_t bound : {start, stop, step})
    if (bound > kFar || bound < -kFar) m.fail(cat("range() with ", bound, " is not implemented"));
  const std::int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (count > kMost) m.fail(cat("range() of ", with_commas(count), " numbers; at most ", with_commas(kMost)));
  Items out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(Value::of(start + i * step));
  return m.items(Kind::range, std::move(out));
}

// What dict() and namespace() start from: a mapping or pairs, then named arguments.
Entries entries_from(Machine& m, const Arguments& given) {
  if (given.positional.size() > 1) m.fail("dict() and namespace() take one argument without a name");
  if (!given.positional.empty() && given.positional[0].is(Kind::undefined)) m.fail(*given.positional[0].text);
  Entries out;
  if (!given.positional.empty() && given.positional[0].is(Kind::dict)) {
    out = *given.positional[0].entries;
  } else if (!given.positional.empty()) {
    for (const Value& pair : iterate(m, given.positional[0])) {
      const Items parts = iterate(m, pair);
      if (parts.size() != 2) m.fail("dict() takes pairs of a key and a value");
      put(m, &out, parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : given.named) put(m, &out, m.text(name), value);
  return out;
}

Value dict(Machine& m, const Value&, const Arguments& given) {
  return m.entries(Kind::dict, entries_from(m, given));
}

Value name_space(Machine& m, const Value&, const Arguments& given) {
  Entries entries = entries_from(m, given);
  for (const auto& [key, value] : entries)
    if (!key.is(Kind::text) || starts_with(*key.text, "_"))
      m.fail("namespace() takes no names that start with _");
  return m.entries(Kind::name_space, std::move(entries));
}

Value strftime_now(Machine& m, const Value&, const Items& given) {
  if (!given[0].is(Kind::text)) m.fail_type("strftime_now", given[0]);
  const std::string& format = *given[0].text;
  if (format.empty()) return m.text("");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char buffer[1024];
  if (format.size() > 128 || format.find('\0') != std::string::npos || localtime_r(&now, &local) == nullptr)
    m.fail("strftime_now with this format is not implemented");
  return m.text(std::string(buffer, std::strftime(buffer, sizeof buffer, format.c_str(), &local)));
}

Value cycle(Machine& m, const Value& self, const Arguments& given) {
  if (given.positional.empty() || !given.named.empty()) m.fail("loop.cycle takes one or more values");
  return given.positional[std::size_t(self.integer) % given.positional.size()];
}

Value not_implemented(Machine& m, const Value&, const Arguments&) {
  m.fail("the functions cycler, joiner and lipsum are not implemented");
}

}  // namespace

Value invoke(Machine& m, const Native& native, const Value& self, const Arguments& given) {
  m.charge(1);
  if (native.run_any != nullptr) return native.run_any(m, self, given);
  const Signature signature = signature_of(native);
  if (given.positional.size() > signature.names.size())
    m.fail(cat(native.name, " takes at most ", signature.names.size(), " arguments, is given ",
               given.positional.size()));
  Items bound = given.positional;
  bound.resize(signature.names.size());
  bind_by_name(m, native, signature, given, &bound);
  for (std::size_t i = 0; i < signature.required; ++i)
    if (!bound[i].given()) m.fail(cat(native.name, " needs its argument ", signature.names[i]));
  return native.run(m, self, bound);
}

const Native* find_global(std::string_view name) {
  static const Native kGlobals[] = {
      {"raise_exception", "message", raise_exception}, {"strftime_now", "format", strftime_now},
      {"range", "/ start stop? step?", range},         {"dict", "*", nullptr, dict},
      {"namespace", "*", nullptr, name_space},         {"cycler", "*", nullptr, not_implemented},
      {"joiner", "*", nullptr, not_implemented},       {"lipsum", "*", nullptr, not_implemented},
  };
  for (const Native& native : kGlobals)
    if (native.name == name) return &native;
  return nullptr;
}

const Native& loop_cycle() {
  static const Native kCycle = {"loop.cycle", "*", nullptr, cycle};
  return kCycle;
}

}  // namespace zt::text::jinja
