// Values of templates, with Python's meaning of comparing, printing and looking into them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja.h"
#include "text/jinja_lexer.h"

namespace zt::text::jinja {

struct Native;
struct Loop;
struct Macro;
struct Generator;
struct Method;
struct Value;
using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;  // a dict in its order

enum class Kind : std::uint8_t {
  absent,     // an argument that was not given; templates never see it
  undefined,  // text: why
  none,
  boolean,
  integer,
  real,
  text,
  list,
  tuple,
  range,
  view,       // dict.keys(), .values(), .items()
  generator,  // what `map`, `select` and their like give: can be gone through once
  dict,
  name_space,
  function,
  method,
  macro,
  loop,
};

// Small and copied freely; what it points to lives as long as its Machine.
struct Value {
  Kind kind = Kind::absent;
  union {
    bool boolean;
    std::int64_t integer;
    double real;
    const std::string* text;
    const Items* items;  // list, tuple, range, view
    Generator* generator;
    Entries* entries;  // dict, name_space; only a name_space ever changes
    const Native* native;
    const Method* method;
    const Macro* macro;
    Loop* loop;
    const void* identity;
  };

  Value() : integer(0) {}
  static Value none() { return of(Kind::none, 0); }
  static Value of(bool value);
  static Value of(std::int64_t value) { return of(Kind::integer, value); }
  static Value of(Kind kind, std::int64_t integer);
  static Value of(const Native* native);
  static Value of(const Macro* macro);
  static Value of(Loop* loop);

  bool is(Kind k) const { return kind == k; }
  bool given() const { return kind != Kind::absent; }
  bool has_items() const { return kind >= Kind::list && kind <= Kind::view; }
  bool is_whole() const { return kind == Kind::boolean || kind == Kind::integer; }
  bool is_number() const { return is_whole() || kind == Kind::real; }
  std::int64_t whole() const { return kind == Kind::boolean ? std::int64_t{boolean} : integer; }
  double number() const { return kind == Kind::real ? real : double(whole()); }
};

struct Generator {
  Items items;
  bool used = false;
};

struct Method {
  const Native* native;
  Value self;
};

// What every operation needs: memory for values, the limits, and the place for messages.
class Machine {
 public:
  explicit Machine(const JinjaLimits& limits) : limits_(limits), steps_left_(limits.steps) {}

  Place at;  // of what is being evaluated
  [[noreturn]] void fail(const std::string& fault) const { refuse(at, fault); }
  [[noreturn]] void fail_type(const std::string& operation, const Value& value) const;

  void charge(std::size_t steps);
  void charge_bytes(std::size_t bytes) { charge(bytes / 64); }
  // Looking for a text in another may compare all of it at every place.
  void charge_search(std::size_t bytes, std::size_t wanted) {
    const std::size_t places = bytes > wanted ? bytes - wanted : 1;
    charge(bytes / 64 + places * (1 + wanted / 64) / 64);
  }
  void append(std::string* out, std::string_view text);

  Value text(std::string text);
  Value undefined(std::string why);
  Value real(double value);
  Value items(Kind kind, Items items);
  Value generator(Items items);
  Value entries(Kind kind, Entries entries);
  Value method(const Native* native, Value self);

  // Bounds recursion while it lives.
  class Deeper {
   public:
    explicit Deeper(Machine* machine);
    ~Deeper() { --machine_->depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Machine* machine_;
  };

 private:
  static constexpr int kMostDepth = 1000;
  JinjaLimits limits_;
  std::int64_t steps_left_;
  int depth_ = 0;
  std::deque<std::string> texts_;
  std::deque<Items> items_;
  std::deque<Entries> entries_;
  std::deque<Generator> generators_;
  std::deque<Method> methods_;
};

// As Python names the type in its messages: "str", "list", ...
const char* type_name(Kind kind);

bool truthy(const Value& value);
// str() and repr(). Objects without a literal are refused.
std::string str(Machine& m, const Value& value);
std::string repr(Machine& m, const Value& value);
bool equal(Machine& m, const Value& a, const Value& b);
bool less(Machine& m, const Value& a, const Value& b);
bool contains(Machine& m, const Value& container, const Value& element);
// iter(), to the end.
Items iterate(Machine& m, const Value& value);
std::int64_t length(Machine& m, const Value& value);

// dict[key]; absent when there is none. Keys that Python can't hash are refused.
Value find(Machine& m, const Entries& entries, const Value& key);
// Adds or overwrites.
void put(Machine& m, Entries* entries, const Value& key, const Value& value);

// value.name, value[key] and value[start:stop:step]; undefined where there is no such thing.
Value attribute(Machine& m, const Value& value, const std::string& name);
Value item(Machine& m, const Value& value, const Value& key);
Value slice(Machine& m, const Value& value, const Value& start, const Value& stop, const Value& step);

// json.dumps with ensure_ascii=False. `indent`: one level's white space, or null for one line.
struct JsonStyle {
  const std::string* indent = nullptr;
  std::string comma = ", ", colon = ": ";
  bool sorted = false;
};
std::string to_json(Machine& m, const Value& value, const JsonStyle& style);

}  // namespace zt::text::jinja
