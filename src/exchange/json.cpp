#include "exchange/json.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "exchange/words.h"

namespace zt::exchange {
namespace {

using nlohmann::json;

// Watches a parse: the library keeps the last of two equal keys and nests without bound.
class Watch {
 public:
  explicit Watch(const std::string& where) : where_(where) {}
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth > kMaxDepth)
      throw Error(Blame::model, cat(where_, " nests deeper than ", kMaxDepth, " levels"));
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw Error(Blame::model, cat(where_, " has the key ", shown(parsed.get<std::string>()), " twice"),
                  "remove one of the two");
    return true;
  }

 private:
  static constexpr int kMaxDepth = 64;
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& where) {
  try {
    // The library copies its callback; the reference keeps one state.
    Watch watch(where);
    return json::parse(text, std::ref(watch));
  } catch (const json::exception& e) {
    throw Error(Blame::model, cat(where, " is not JSON: ", shown_json_error(e.what())));
  }
}

json read_json_object(const std::filesystem::path& path, std::int64_t limit) {
  json out = parse_json(read_text_file(path, Blame::model, limit), path.string());
  if (!out.is_object())
    throw Error(Blame::model, cat(path.string(), " must hold a JSON object, holds ", out.type_name()));
  return out;
}

}  // namespace zt::exchange
