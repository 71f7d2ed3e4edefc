#include "cuda_emulator/device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "cuda_emulator/findings.h"

namespace zt::emulator {
namespace {

constexpr int kMostDevices = 16;
constexpr std::uint32_t kLegacyStream = 1;

struct Devices {
  std::mutex mutex;
  std::array<std::unique_ptr<Device>, kMostDevices> all;
};

Devices& devices() {
  static auto* only = new Devices;
  return *only;
}

thread_local int current_device = 0;

}  // namespace

int Device::count() { return settings().devices; }
int Device::current_index() { return current_device; }
void Device::set_current(int index) { current_device = index; }
Device& Device::current() { return get(current_device); }

Device& Device::get(int index) {
  Devices& d = devices();
  const std::lock_guard lock(d.mutex);
  if (!d.all[index]) d.all[index] = std::make_unique<Device>(index);
  return *d.all[index];
}

std::vector<Device*> Device::used() {
  Devices& d = devices();
  const std::lock_guard lock(d.mutex);
  std::vector<Device*> all;
  for (const auto& one : d.all)
    if (one) all.push_back(one.get());
  return all;
}

Device::Device(int index) : index_(index), memory_(index), random_(settings().seed * 7919 + index) {
  create_stream(0, 0);  // the legacy default stream
}

Stream* Device::create_stream(unsigned flags, int priority) {
  const std::lock_guard lock(mutex_);
  auto stream = std::make_unique<Stream>();
  stream->device = this;
  stream->number = static_cast<std::uint32_t>(streams_.size()) + 1;
  stream->flags = flags;
  stream->priority = priority;
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Stream* Device::find_stream(const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto at =
      std::find_if(streams_.begin(), streams_.end(), [=](const auto& s) { return s.get() == handle; });
  return at == streams_.end() ? nullptr : at->get();
}

Event* Device::find_event(const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto at =
      std::find_if(events_.begin(), events_.end(), [=](const auto& e) { return e.get() == handle; });
  return at == events_.end() ? nullptr : at->get();
}

Event* Device::create_event(bool timing) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::make_unique<Event>());
  events_.back()->device = this;
  events_.back()->timing = timing;
  return events_.back().get();
}

std::uint64_t end_of(const Event* event) {
  return std::max(event->not_before, event->work ? event->work->ended : 0);
}

WorkPtr Device::enqueue(Stream* stream, const std::string& name, std::function<bool()> run,
                        const std::vector<WorkPtr>& after) {
  const std::lock_guard lock(mutex_);
  if (stream->number == kLegacyStream)
    report("default stream", cat(name, " is enqueued on the legacy default stream"),
           CallStack::here().text());
  if (stream->destroyed)
    report("destroyed stream", cat(name, " is enqueued on stream ", stream->number, ", which was destroyed"),
           CallStack::here().text());
  auto work = std::make_shared<Work>();
  work->stream = stream;
  work->run = std::move(run);
  work->after = std::exchange(stream->waits, {});
  work->after.insert(work->after.end(), after.begin(), after.end());
  if (stream->last && !stream->last->done) work->after.push_back(stream->last);
  merge(&stream->clock, host_);
  if (stream->clock.size() <= stream->number) stream->clock.resize(stream->number + 1);
  if (work->run) ++stream->sequence;  // else a mere mark, which is nothing to wait for
  stream->clock[stream->number] = stream->sequence;
  work->op = record_op(index_, stream->number, stream->sequence, stream->clock, name);
  const Policy policy = settings().policy;
  work->eager = policy == Policy::eager || (policy == Policy::random && random_.below(2) == 1);
  stream->last = work;
  stream->queue.push_back(work);
  tick();
  if (work->eager) drive();
  return work;
}

WorkPtr Device::all_of(Stream* stream) {
  const std::lock_guard lock(mutex_);
  if (!stream->waits.empty()) enqueue(stream, "event", nullptr);
  return stream->last;
}

void Device::record(Event* event, Stream* stream) {
  const std::lock_guard lock(mutex_);
  event->work = all_of(stream);
  event->not_before = stream->awaited_end;
  merge(&stream->clock, host_);
  event->clock = stream->clock;
  event->recorded = true;
}

void Device::wait_for(Stream* stream, Event* event) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::int64_t>(waits_.size());
  Clock reached = stream->clock;
  merge(&reached, host_);
  waits_.push_back({CallStack::here(), merge(&reached, event->clock)});
  if (number == forgotten_wait_) return;
  merge(&stream->clock, event->clock);
  if (event->work && !event->work->done) stream->waits.push_back(event->work);
  stream->awaited_end = std::max(stream->awaited_end, end_of(event));
}

// Marks the work and everything it waits for. Queues can be long, so no recursion.
void Device::want(const WorkPtr& work) {
  std::vector<Work*> open{work.get()};
  while (!open.empty()) {
    Work* one = open.back();
    open.pop_back();
    if (one == nullptr || one->wanted || one->done) continue;
    one->wanted = true;
    for (const WorkPtr& earlier : one->after) open.push_back(earlier.get());
  }
}

// True if the work is finished. A collective that is asked again and again is no sign of life to its peers.
bool Device::attempt(Work* work) {
  const bool first = !std::exchange(work->tried, true);
  const RunningOp now(work->op);
  if (first)
    for (Service* service : services_) service->running(true);
  const bool finished = !work->run || work->run();
  for (Service* service : services_) {
    if (first) service->running(false);
    if (finished) service->finished_work();
  }
  return finished;
}

// Runs one piece of work of those that may run now; false if none got finished.
bool Device::run_one() {
  std::vector<WorkPtr> ready;
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    const WorkPtr& front = stream->queue.front();
    if (!front->wanted && !front->eager) continue;
    if (std::all_of(front->after.begin(), front->after.end(), [](const WorkPtr& w) { return w->done; }))
      ready.push_back(front);
  }
  while (!ready.empty()) {
    const std::uint32_t pick = random_.below(static_cast<std::uint32_t>(ready.size()));
    const WorkPtr work = ready[pick];
    ready.erase(ready.begin() + pick);
    if (!attempt(work.get())) continue;
    if (settings().verbose)
      std::fprintf(stderr, "device %d stream %u #%u %s\n", index_, work->stream->number, work->op->sequence,
                   work->op->name.c_str());
    work->done = true;
    work->ended = ++ended_;
    work->run = nullptr;
    work->after.clear();
    work->stream->queue.pop_front();
    return true;
  }
  return false;
}

// Runs all that may run; true if anything was finished.
bool Device::drive() {
  if (driving_) return false;  // work that enqueues more: the loop below will find it
  driving_ = true;
  bool any = false;
  while (run_one()) any = true;
  driving_ = false;
  if (any) changed_.notify_all();
  return any;
}

std::uint64_t Device::peers_progress() const {
  std::uint64_t sum = 0;
  for (const Service* service : services_) sum += service->progress();
  return sum;
}

bool Patience::is_over(bool progress, std::uint64_t peers) {
  const Time::time_point now = Time::now();
  if (progress || peers != peers_)
    idle_ = {};
  else
    idle_ += std::min<Time::duration>(now - asked_, std::chrono::milliseconds(100));
  asked_ = now;
  peers_ = peers;
  return idle_ > std::chrono::milliseconds(settings().patience_ms);
}

bool Device::wait(const WorkPtr& work, const char* call) {
  std::unique_lock lock(mutex_);
  if (!work) return true;
  want(work);
  Patience patience;
  while (!work->done) {
    if (hangs_) return false;
    const bool progress = drive();
    if (!progress) changed_.wait_for(lock, std::chrono::microseconds(200));
    if (!patience.is_over(progress, peers_progress())) continue;
    report_deadlock(call);
    hangs_ = true;
  }
  return true;
}

void Device::report_deadlock(const char* call) {
  std::vector<std::string> stuck;
  for (const auto& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front()->wanted)
      stuck.push_back(cat("stream ", stream->number, " at `", stream->queue.front()->op->name, "`"));
  report("stream deadlock", cat(call, " of device ", index_, " waits for ever: ", join(stuck, ", ")),
         CallStack::here().text());
}

// A wait of the host succeeded: what it does next comes after everything in `clock`.
bool Device::host_knows(const Clock& clock) {
  merge(&host_, clock);
  tick();
  return true;
}

void Device::tick() {
  ++host_[0];
  host_op_ = nullptr;
}

const Op& Device::host_op() {
  const std::lock_guard lock(mutex_);
  if (host_op_ == nullptr) host_op_ = record_op(index_, 0, host_[0], host_, "host code");
  return *host_op_;
}

// No lock is held while the host waits, so that other threads can enqueue what this one waits for.
bool Device::wait_and_know(const WorkPtr& work, const Clock& clock, const char* call) {
  if (!wait(work, call)) return false;
  const std::lock_guard lock(mutex_);
  return host_knows(clock);
}

bool Device::synchronize(Stream* stream, const char* call) {
  std::unique_lock lock(mutex_);
  if (stream->destroyed)
    report("destroyed stream", cat(call, " on stream ", stream->number, ", which was destroyed"),
           CallStack::here().text());
  const WorkPtr work = all_of(stream);
  const Clock clock = stream->clock;
  lock.unlock();
  return wait_and_know(work, clock, call);
}

bool Device::synchronize(Event* event, const char* call) {
  std::unique_lock lock(mutex_);
  const WorkPtr work = event->work;
  const Clock clock = event->clock;
  lock.unlock();
  return wait_and_know(work, clock, call);
}

bool Device::finish(const char* call) {
  std::unique_lock lock(mutex_);
  std::vector<WorkPtr> all;
  for (const auto& stream : streams_) all.push_back(all_of(stream.get()));
  lock.unlock();
  return std::all_of(all.begin(), all.end(), [&](const WorkPtr& work) { return wait(work, call); });
}

bool Device::synchronize_all(const char* call) {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<WorkPtr, Clock>> all;
  for (const auto& stream : streams_) {
    const WorkPtr last = all_of(stream.get());
    all.emplace_back(last, stream->clock);
  }
  lock.unlock();
  for (const auto& [work, clock] : all)
    if (!wait_and_know(work, clock, call)) return false;
  begin_anew_if_idle();
  return true;
}

// With the device idle and the host knowing it, everything so far lies before everything that comes: clocks may begin anew,
// so they stay short however many streams a process makes.
void Device::begin_anew_if_idle() {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    if (!stream->queue.empty() || !stream->waits.empty()) return;
    for (std::size_t i = 1; i < stream->clock.size(); ++i)
      if (i >= host_.size() || host_[i] < stream->clock[i]) return;
  }
  forget_history(index_);
  host_ = {host_[0] + 1};
  host_op_ = nullptr;
  for (const auto& stream : streams_) {
    stream->clock.clear();
    stream->last = nullptr;
  }
}

Ready Device::ready(const WorkPtr& work, const char* call) {
  if (!work || work->done) return Ready::yes;
  if (hangs_) return Ready::never;
  bool progress = false;
  if (random_.below(2) == 1) {
    want(work);
    progress = drive();
  }
  if (work->done) return Ready::yes;
  if (queried_ != work) query_patience_ = {};
  queried_ = work;
  if (!query_patience_.is_over(progress, peers_progress())) return Ready::not_yet;
  want(work);
  report_deadlock(call);
  hangs_ = true;
  return Ready::never;
}

Ready Device::ready_and_known(const WorkPtr& work, const Clock& clock, const char* call) {
  const Ready answer = ready(work, call);
  if (answer == Ready::yes) host_knows(clock);
  return answer;
}

Ready Device::query(Stream* stream, const char* call) {
  const std::lock_guard lock(mutex_);
  const WorkPtr last = all_of(stream);
  return ready_and_known(last, stream->clock, call);
}

Ready Device::query(Event* event, const char* call) {
  const std::lock_guard lock(mutex_);
  return ready_and_known(event->work, event->clock, call);
}

void Device::add_service(Service* service) {
  const std::lock_guard lock(mutex_);
  services_.push_back(service);
  if (server_.joinable()) return;
  stop_server_ = false;
  server_ = std::thread([this] { serve(); });
}

void Device::remove_service(Service* service) {
  std::thread ended;
  {
    const std::lock_guard lock(mutex_);
    std::erase(services_, service);
    if (!services_.empty()) return;
    stop_server_ = true;
    ended = std::exchange(server_, {});
  }
  if (ended.joinable()) ended.join();
}

// A rank whose host is busy elsewhere (or blocked in MPI) still runs what its peers wait for, as a GPU would.
void Device::serve() {
  set_current(index_);
  std::unique_lock lock(mutex_);
  while (!stop_server_) {
    bool wanted = false;
    for (Service* service : services_) wanted = service->peers_wait() || wanted;
    if (wanted) drive();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    lock.lock();
  }
}

void Device::restart(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  random_ = Random(seed * 7919 + index_);
  waits_.clear();
  forgotten_wait_ = -1;
  if (!std::exchange(hangs_, false)) return;
  for (const auto& stream : streams_) {
    for (const WorkPtr& work : stream->queue) work->done = true;
    stream->queue.clear();
    stream->waits.clear();
    stream->last = nullptr;
  }
}

std::vector<Wait> Device::waits() const {
  const std::lock_guard lock(mutex_);
  std::vector<Wait> all;
  for (const LoggedWait& one : waits_) all.push_back({one.from.text(3), one.needed});
  return all;
}

void Device::forget_wait(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  forgotten_wait_ = number;
}

void configure(std::uint64_t seed, Policy policy, Order order, bool check) {
  settings().seed = seed;
  settings().policy = policy;
  settings().order = order;
  settings().check = check;
  for (Device* device : Device::used()) device->restart(seed);
}

std::vector<Wait> waits(int device) { return Device::get(device).waits(); }
void forget_wait(int device, std::int64_t number) { Device::get(device).forget_wait(number); }

namespace {

class HostSite final : public ptx::Site {
 public:
  explicit HostSite(const void* return_address) : at_(return_address) {}
  std::string who() const override { return "host code"; }
  std::string where() const override { return source_line(at_); }

 private:
  const void* at_;
};

}  // namespace

void host_touches(const void* address, std::size_t bytes, ptx::AccessKind kind, const void* return_address) {
  Memory* memory = Memory::of(address);
  if (memory == nullptr || bytes == 0 || !settings().check) return;
  const HostSite site(return_address);
  const Allocation* a = memory->find(address);
  if (a != nullptr && a->place == Place::device) {
    report("host touches device memory",
           cat("host code ", kind == ptx::AccessKind::read ? "reads" : "writes", " what ", a->name,
               " gave it at ", a->made_by.text()),
           site.where());
    return;
  }
  // A host function of a stream touches it as that op.
  const Op* op = current_op();
  memory->touch(address, bytes, kind, op != nullptr ? *op : Device::get(memory->device()).host_op(), site);
}

}  // namespace zt::emulator
