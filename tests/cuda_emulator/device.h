// Streams, events and the queues of one emulated device.
//
// Work runs on whatever thread waits for it (or, if it is eager, on the one that enqueues it), one piece at a time, in any
// order that streams and events allow; which one is drawn from the seed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "cuda_emulator/history.h"
#include "cuda_emulator/memory.h"
#include "cuda_emulator/settings.h"

namespace zt::emulator {

class Device;
struct Stream;

// One piece of enqueued work. `run` says whether it is finished; collectives are asked again until their peers are there.
struct Work {
  const Op* op = nullptr;
  Stream* stream = nullptr;
  std::function<bool()> run;
  std::vector<std::shared_ptr<Work>> after;
  bool wanted = false;
  bool eager = false;
  bool tried = false;
  bool done = false;
  std::uint64_t ended = 0;  // how many of the device's pieces had ended with it
};
using WorkPtr = std::shared_ptr<Work>;

struct Stream {
  Device* device = nullptr;
  std::uint32_t number = 0;  // its component in clocks; 1 is the legacy default stream
  unsigned flags = 0;
  int priority = 0;
  bool destroyed = false;
  std::uint32_t sequence = 0;
  Clock clock;
  std::deque<WorkPtr> queue;
  WorkPtr last;
  std::vector<WorkPtr> waits;     // of events, for the next work
  std::uint64_t awaited_end = 0;  // the latest end of work that was done when this stream was to wait for it
};

struct Event {
  Device* device = nullptr;
  bool timing = true;
  bool recorded = false;
  bool destroyed = false;
  Clock clock;
  WorkPtr work;  // what must be done for the event to be; none: nothing was enqueued before it
  std::uint64_t not_before = 0;  // its time is no earlier than this end
};

// How many pieces of the device's work had ended when the event was done.
std::uint64_t end_of(const Event* event);

// Something that lets a device's work go on because others wait for it: a communicator.
class Service {
 public:
  virtual ~Service() = default;
  // Marks what peers wait for as wanted; true if there is such work.
  virtual bool peers_wait() = 0;
  // The device begins (true) or has ended (false) work that may take long: peers are patient meanwhile.
  virtual void running(bool now) = 0;
  virtual void finished_work() = 0;
  // A number that changes while any peer gets on.
  virtual std::uint64_t progress() const = 0;
};

// How long nothing has happened: time counts only while somebody keeps asking.
class Patience {
 public:
  // True if that has become too long. `peers` is a number that changes while any peer gets on.
  bool is_over(bool progress, std::uint64_t peers);

 private:
  using Time = std::chrono::steady_clock;
  Time::time_point asked_ = Time::now();
  Time::duration idle_{};
  std::uint64_t peers_ = 0;
};

// `never`: it hangs, and that was reported.
enum class Ready : std::uint8_t { yes, not_yet, never };

class Device {
 public:
  static int count();
  static Device& get(int index);
  static Device& current();
  static int current_index();
  static void set_current(int index);
  // Those that were used, for configure().
  static std::vector<Device*> used();

  explicit Device(int index);

  int index() const { return index_; }
  Memory& memory() { return memory_; }
  Random& random() { return random_; }
  // Held by everything below; taken from outside where several calls belong together.
  std::recursive_mutex& mutex() { return mutex_; }

  Stream* create_stream(unsigned flags, int priority);
  Stream* legacy_stream() { return streams_.front().get(); }  // a finding where work is enqueued on it
  // nullptr unless the handle is a stream, or an event, of this device.
  Stream* find_stream(const void* handle);
  Event* find_event(const void* handle);
  Event* create_event(bool timing);

  WorkPtr enqueue(Stream* stream, const std::string& name, std::function<bool()> run,
                  const std::vector<WorkPtr>& after = {});
  // What must be done for all of a stream to be, waits too that no work has taken yet.
  WorkPtr all_of(Stream* stream);
  void record(Event* event, Stream* stream);
  void wait_for(Stream* stream, Event* event);

  // The host waits; false if that is a deadlock, which is then reported. `call` is what the program called.
  bool wait(const WorkPtr& work, const char* call);
  bool synchronize(Stream* stream, const char* call);
  bool synchronize(Event* event, const char* call);
  bool synchronize_all(const char* call);
  // Runs all there is, without the host knowing it.
  bool finish(const char* call);
  // Is it done? By the coin it may get on with it first.
  Ready query(Stream* stream, const char* call);
  Ready query(Event* event, const char* call);
  // What the host does now: after everything it waited for.
  const Op& host_op();

  void want(const WorkPtr& work);
  void add_service(Service* service);
  void remove_service(Service* service);

  // For configure(): a new seed, logs begin anew, and what hangs is dropped.
  void restart(std::uint64_t seed);
  std::vector<Wait> waits() const;
  void forget_wait(std::int64_t number);

 private:
  bool drive();
  bool run_one();
  bool attempt(Work* work);
  void tick();
  bool host_knows(const Clock& clock);
  bool wait_and_know(const WorkPtr& work, const Clock& clock, const char* call);
  void begin_anew_if_idle();
  Ready ready(const WorkPtr& work, const char* call);
  Ready ready_and_known(const WorkPtr& work, const Clock& clock, const char* call);
  void report_deadlock(const char* call);
  std::uint64_t peers_progress() const;
  void serve();

  int index_;
  Memory memory_;
  Random random_;
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  Clock host_{1};
  const Op* host_op_ = nullptr;
  bool driving_ = false;
  std::uint64_t ended_ = 0;  // pieces of work
  bool hangs_ = false;
  Patience query_patience_;
  WorkPtr queried_;
  std::vector<Service*> services_;
  std::thread server_;
  bool stop_server_ = false;
  struct LoggedWait {
    CallStack from;
    bool needed;
  };
  std::vector<LoggedWait> waits_;
  std::int64_t forgotten_wait_ = -1;
};

}  // namespace zt::emulator
