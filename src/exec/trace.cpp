#include "exec/trace.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "plan/exposed_waits.h"

namespace zt::exec {

using Json = nlohmann::ordered_json;
using schedule::Lane;
using schedule::Op;
using schedule::OpKind;

namespace {

// Nanoseconds: what a clock tells, without the digits of its arithmetic.
double rounded(double seconds) { return std::round(seconds * 1e9) / 1e9; }

double busy_seconds(const schedule::Schedule& list, const std::vector<plan::Span>& spans, Lane lane) {
  double sum = 0;
  for (std::size_t i = 0; i < spans.size(); ++i)
    if (list.ops[i].lane == lane) sum += spans[i].end - spans[i].start;
  return sum;
}

Json ops_json(const schedule::Schedule& list, const plan::Simulation& time) {
  Json out = Json::array();
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    out.push_back({{"name", name(op)},
                   {"kind", name(op.kind)},
                   {"lane", name(op.lane)},
                   {"block", op.block},
                   {"micro", op.micro},
                   {"start", rounded(time.spans[i].start)},
                   {"end", rounded(time.spans[i].end)}});
  }
  return out;
}

Json waits_json(const schedule::Schedule& list, const plan::Simulation& time) {
  Json out = Json::array();
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const plan::Span& span = time.spans[i];
    if (list.ops[i].lane != Lane::compute || !(span.waited > 0)) continue;
    out.push_back({{"op", i},
                   {"waits_for", span.blocker < 0 ? Json() : Json(span.blocker)},
                   {"seconds", rounded(span.waited)}});
  }
  if (time.tail > 0)
    out.push_back({{"op", nullptr}, {"waits_for", nullptr}, {"seconds", rounded(time.tail)}});
  return out;
}

Json blocks_json(const schedule::Schedule& list, const plan::Simulation& time) {
  Json out = Json::array();
  for (const plan::BlockWaits& block : exposed_waits(list, time))
    out.push_back(
        {{"block", block.block}, {"waits", block.times}, {"exposed_seconds", rounded(block.seconds)}});
  return out;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(Blame::data, cat(where, ": ", what), "a run writes it anew when it is started again");
}

// The value whose word that is.
template <typename Enum>
std::optional<Enum> named(const std::string& word, int count) {
  for (int i = 0; i < count; ++i)
    if (word == name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

// Members of the file, checked as they are taken.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}
  std::int64_t whole(const char* key, std::int64_t low, std::int64_t high) const {
    const Json& value = member(key);
    if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
      refuse(where_, cat("'", key, "' must be a whole number from ", low, " to ", high));
    return value.get<std::int64_t>();
  }
  double seconds(const char* key) const {
    const Json& value = member(key);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1e9))
      refuse(where_, cat("'", key, "' must be a number of seconds"));
    return value.get<double>();
  }
  std::string word(const char* key) const {
    const Json& value = member(key);
    if (!value.is_string()) refuse(where_, cat("'", key, "' must be a text"));
    return value.get<std::string>();
  }
  const Json& list(const char* key) const {
    const Json& value = member(key);
    if (!value.is_array()) refuse(where_, cat("'", key, "' must be a list"));
    return value;
  }
  bool has_value(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const std::string& where() const { return where_; }

 private:
  const Json& member(const char* key) const {
    if (!json_.is_object() || !json_.contains(key)) refuse(where_, cat("'", key, "' is missing"));
    return json_[key];
  }
  const Json& json_;
  std::string where_;
};

void add_op(const Reader& in, PlayedStep* step) {
  constexpr int kMostBlocks = 1'000'000;
  Op op;
  const auto kind = named<OpKind>(in.word("kind"), int(OpKind::update) + 1);
  const auto lane = named<Lane>(in.word("lane"), schedule::kLanes);
  if (!kind) refuse(in.where(), cat("'kind' is '", in.word("kind"), "', which is no kind of operation"));
  if (!lane) refuse(in.where(), cat("'lane' is '", in.word("lane"), "', which is no lane"));
  op.kind = *kind, op.lane = *lane;
  op.block = static_cast<int>(in.whole("block", -1, kMostBlocks));
  op.micro = static_cast<int>(in.whole("micro", -1, kMostBlocks));
  const plan::Span span = {in.seconds("start"), in.seconds("end"), 0, -1};
  if (span.end < span.start) refuse(in.where(), "'end' is before 'start'");
  step->list.ops.push_back(op);
  step->time.spans.push_back(span);
}

void add_wait(const Reader& in, PlayedStep* step) {
  const auto last = static_cast<std::int64_t>(step->list.ops.size()) - 1;
  step->time.exposed += in.seconds("seconds");
  if (!in.has_value("op")) {
    step->time.tail += in.seconds("seconds");
    return;
  }
  plan::Span& span = step->time.spans[static_cast<std::size_t>(in.whole("op", 0, last))];
  span.waited = in.seconds("seconds");
  span.blocker = in.has_value("waits_for") ? static_cast<int>(in.whole("waits_for", 0, last)) : -1;
}

}  // namespace

plan::Simulation as_played(const schedule::Schedule& list, const StepTrace& trace) {
  plan::Simulation out;
  out.seconds = trace.seconds;
  out.spans = trace.spans;
  out.tail = trace.tail;
  out.exposed = trace.tail;
  for (std::size_t i = 0; i < list.ops.size(); ++i)
    if (list.ops[i].lane == Lane::compute) out.exposed += trace.spans[i].waited;
  for (int lane = 0; lane < schedule::kLanes; ++lane)
    out.busy[static_cast<std::size_t>(lane)] = busy_seconds(list, trace.spans, static_cast<Lane>(lane));
  return out;
}

std::string trace_json(const schedule::Schedule& list, const StepTrace& trace, std::int64_t step, int rank,
                       int ranks) {
  const plan::Simulation time = as_played(list, trace);
  Json out = {{"step", step},
              {"rank", rank},
              {"ranks", ranks},
              {"train_fingerprint", fingerprint(list)},
              {"seconds", rounded(time.seconds)},
              {"exposed_comm_seconds", rounded(time.exposed)}};
  for (const Lane lane : {Lane::compute, Lane::comm})
    out["busy"][name(lane)] = rounded(time.busy[static_cast<std::size_t>(lane)]);
  out["blocks"] = blocks_json(list, time);
  out["waits"] = waits_json(list, time);
  out["ops"] = ops_json(list, time);
  return out.dump() + "\n";
}

PlayedStep read_trace(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse(where, "is not JSON");
  const Reader in(json, where);
  PlayedStep step;
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  step.step = in.whole("step", 0, kMost);
  step.ranks = static_cast<int>(in.whole("ranks", 1, 1 << 24));
  step.rank = static_cast<int>(in.whole("rank", 0, step.ranks - 1));
  step.time.seconds = in.seconds("seconds");
  std::size_t i = 0;
  for (const Json& op : in.list("ops")) add_op({op, cat(where, ", operation ", i++)}, &step);
  if (step.list.ops.empty()) refuse(where, "has no operations");
  i = 0;
  for (const Json& wait : in.list("waits")) add_wait({wait, cat(where, ", wait ", i++)}, &step);
  for (int lane = 0; lane < schedule::kLanes; ++lane)
    step.time.busy[static_cast<std::size_t>(lane)] =
        busy_seconds(step.list, step.time.spans, static_cast<Lane>(lane));
  return step;
}

}  // namespace zt::exec
