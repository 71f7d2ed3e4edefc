#include "comm/ledger.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "comm/peers.h"

namespace zt::comm {
namespace {

thread_local Place here;
thread_local bool beside = false;

template <std::size_t N>
void copy_name(std::string_view from, std::array<char, N>& to) {
  to = {};
  from.copy(to.data(), N - 1);
}

// Without std::string: for signal handlers too.
struct Writer {
  char* at;
  char* end;
  void put(const char* text) {
    while (*text != 0 && at < end) *at++ = *text++;
  }
  void put(std::int64_t number) {
    std::array<char, 24> digits{};
    std::size_t first = digits.size() - 1;
    do digits[--first] = char('0' + number % 10);
    while ((number /= 10) > 0);
    put(&digits[first]);
  }
  void put(const Place& place) {
    if (place.name[0] == 0) {
      if (place.step > 0) put("after step "), put(place.step);
      return;
    }
    if (place.op < 0) return put(place.name.data());
    put(place.step > 0 ? "step " : "evaluation");
    if (place.step > 0) put(place.step);
    put(" #"), put(place.op), put(" `"), put(place.name.data()), put("`");
  }
};

}  // namespace

void this_thread_is_beside() { beside = true; }

Place current_place() { return here; }

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since(std::int64_t steady_then) { return double(steady_now() - steady_then) * 1e-9; }

Place Place::of(std::string_view name, std::int64_t step, std::int64_t op) {
  Place place{step, op, {}};
  copy_name(name, place.name);
  return place;
}

void Ledger::doing(const Place& place) {
  here = place;
  if (!beside) work_.set({place, steady_now()});
}

void Ledger::enter(const char* operation, std::int64_t bytes) {
  ++last_.number;
  last_.inside = 1;
  last_.bytes = bytes;
  last_.since = steady_now();
  last_.place = here;
  copy_name(operation, last_.operation);
  meeting_.set(last_);
}

void Ledger::leave() {
  last_.inside = 0;
  last_.since = steady_now();
  meeting_.set(last_);
}

void Ledger::heard(const Work& work, const Meeting& meeting) {
  work_.set(work);
  meeting_.set(meeting);
}

std::string text(const Place& place) {
  std::array<char, 128> buffer{};
  Writer out{buffer.data(), buffer.data() + buffer.size()};
  out.put(place);
  return {buffer.data(), out.at};
}

std::string account(const Ledger& ledger) {
  const Meeting m = ledger.meeting();
  const Work w = ledger.work();
  if (m.number == 0 && w.since == 0) return "";
  if (m.inside != 0) {
    const std::string where = text(m.place);
    return cat("waits in collective ", m.number, ", ", m.operation.data(), " over ", with_commas(m.bytes),
               " bytes", where.empty() ? "" : cat(" (", where, ")"), ", for ",
               human_seconds(seconds_since(m.since)));
  }
  const std::string where = text(w.place);
  return cat("has been ",
             where.empty()                 ? "outside of steps"
             : starts_with(where, "after") ? where
                                           : "in " + where,
             " for ", human_seconds(seconds_since(where.empty() ? m.since : w.since)), ", after collective ",
             m.number);
}

int furthest_behind(const Ledgers& ledgers, const std::vector<int>& ranks) {
  return *std::ranges::min_element(ranks, {},
                                   [&](int rank) { return ledgers[std::size_t(rank)].meeting().number; });
}

std::string difference(const Ledgers& ledgers, double seconds) {
  const auto waits_long = [&](const Meeting& m) { return m.inside != 0 && seconds_since(m.since) > seconds; };
  for (std::size_t a = 0; a < ledgers.size(); ++a) {
    const Meeting first = ledgers[a].meeting();
    if (!waits_long(first)) continue;
    for (std::size_t b = a + 1; b < ledgers.size(); ++b) {
      const Meeting second = ledgers[b].meeting();
      if (!waits_long(second) || first.number != second.number ||
          (first.operation == second.operation && first.bytes == second.bytes))
        continue;
      return cat("ranks ", a, " and ", b, " will never meet: rank ", a, " ", account(ledgers[a]), "; rank ",
                 b, " ", account(ledgers[b]));
    }
  }
  return "";
}

char* write_place(const Ledger& ledger, char* to, char* end) {
  const Work work = ledger.work();
  const Meeting meeting = ledger.meeting();
  Writer out{to, end};
  out.put(meeting.inside != 0 ? meeting.place : work.place);
  return out.at;
}

}  // namespace zt::comm
