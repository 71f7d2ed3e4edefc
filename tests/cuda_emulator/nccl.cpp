// Stand-in for libnccl among ranks that are threads or processes.
//
// A collective is work on its stream that is finished when all ranks have posted the same call. What differs is a finding on
// every rank; a call that one rank never makes is a stream deadlock that names the call. Ranks add in order of rank, rounding
// each sum to the type, as a ring would.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"
#include "cuda_emulator/nccl_board.h"

using namespace zt::emulator;
using zt::cat;

// nccl.h names the type.
struct ncclComm final : Service {
  ncclComm(const std::string& name, int ranks_, int rank_)
      : board(name, ranks_),
        ranks(ranks_),
        rank(rank_),
        device(Device::current()),
        identity(std::hash<std::string>{}(name)) {}

  bool peers_wait() override;
  void running(bool now) override { board.seat(rank).busy = now; }
  void finished_work() override { ++board.seat(rank).finished_work; }
  std::uint64_t progress() const override;

  Board board;
  int ranks, rank;
  Device& device;
  std::uint64_t identity;
  std::uint64_t made = 0, finished = 0;  // calls of this rank
  std::deque<WorkPtr> open;
  bool aborted = false;
  mutable std::uint64_t signs_of_life = 0;
};

bool ncclComm::peers_wait() {
  while (!open.empty() && open.front()->done) open.pop_front();
  if (open.empty()) return false;
  bool waiting = false;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const Mailbox &in = board.mailbox(peer, rank), &out = board.mailbox(rank, peer);
    waiting = waiting || board.seat(peer).posted > finished || in.sent > in.taken || out.sent > out.taken;
  }
  if (waiting) device.want(open.front());
  return waiting;
}

std::uint64_t ncclComm::progress() const {
  std::uint64_t sum = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    sum += board.seat(peer).finished_work;
    if (board.seat(peer).busy) ++signs_of_life;
  }
  return sum + signs_of_life;
}

namespace {

constexpr const char* kNames[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"};

std::size_t size_of(int type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: stop(cat("NCCL type ", type, " is not known"), CallStack::here().text());
  }
}

const char* name_of(int type) {
  switch (type) {
    case ncclFloat16: return "f16";
    case ncclBfloat16: return "bf16";
    case ncclFloat32: return "f32";
    case ncclFloat64: return "f64";
    case ncclInt32: return "i32";
    case ncclInt64: return "i64";
    default: return "integers";
  }
}

std::string describe(const CollectiveCall& c) {
  return cat(kNames[static_cast<int>(c.kind)], " of ", c.count, " ", name_of(c.type),
             c.kind == Collective::broadcast || c.kind == Collective::reduce ? cat(" root ", c.root) : "");
}

float to_float(__half x) { return __half2float(x); }
float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
T to_float(T x) {
  return x;
}
void assign(__half* x, float v) { *x = __float2half_rn(v); }
void assign(__nv_bfloat16* x, float v) { *x = __float2bfloat16_rn(v); }
template <typename T>
void assign(T* x, T v) {
  *x = v;
}

template <typename T>
void reduce_as(ncclComm* c, const CollectiveCall& call, std::size_t begin, std::size_t count, char* to) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = reinterpret_cast<const T*>(c->board.message(0))[begin + i];
    for (int rank = 1; rank < c->ranks; ++rank) {
      const auto a = to_float(sum),
                 b = to_float(reinterpret_cast<const T*>(c->board.message(rank))[begin + i]);
      assign(&sum, static_cast<decltype(to_float(sum))>(call.reduction == ncclMax   ? std::max(a, b)
                                                        : call.reduction == ncclMin ? std::min(a, b)
                                                                                    : a + b));
    }
    if (call.reduction == ncclAvg)
      assign(&sum, static_cast<decltype(to_float(sum))>(to_float(sum) / c->ranks));
    reinterpret_cast<T*>(to)[i] = sum;
  }
}

void reduce(ncclComm* c, const CollectiveCall& call, std::size_t begin, std::size_t count, char* to) {
  switch (call.type) {
    case ncclFloat16: return reduce_as<__half>(c, call, begin, count, to);
    case ncclBfloat16: return reduce_as<__nv_bfloat16>(c, call, begin, count, to);
    case ncclFloat32: return reduce_as<float>(c, call, begin, count, to);
    case ncclFloat64: return reduce_as<double>(c, call, begin, count, to);
    case ncclInt32: return reduce_as<std::int32_t>(c, call, begin, count, to);
    case ncclUint32: return reduce_as<std::uint32_t>(c, call, begin, count, to);
    case ncclInt64: return reduce_as<std::int64_t>(c, call, begin, count, to);
    case ncclUint64: return reduce_as<std::uint64_t>(c, call, begin, count, to);
    default: stop(cat("NCCL reduces no type ", call.type, " here"), "");
  }
}

// One collective of one rank, from its enqueuing to its end.
struct Round {
  ncclComm* c;
  std::uint64_t number;
  CollectiveCall call;
  const void* send;
  void* receive;
  std::size_t send_bytes, receive_bytes;
  bool posted = false;

  bool run();
  bool post();
  bool agree() const;
  void deliver() const;
};

// False while a peer still reads what this rank posted before.
bool Round::post() {
  if (posted) return true;
  for (int peer = 0; peer < c->ranks; ++peer)
    if (c->board.seat(peer).taken + 1 < number) return false;
  if (op_reads(send, send_bytes) && send_bytes != 0) std::memcpy(c->board.message(c->rank), send, send_bytes);
  c->board.seat(c->rank).call = call;
  c->board.seat(c->rank).posted = number;
  posted = true;
  return true;
}

// Names what the peers do otherwise.
bool Round::agree() const {
  bool same = true;
  for (int peer = 0; peer < c->ranks; ++peer) {
    const CollectiveCall& other = c->board.seat(peer).call;
    const std::string where = cat("rank ", c->rank);
    if (other.kind != call.kind || other.count != call.count || other.type != call.type ||
        other.reduction != call.reduction || other.root != call.root) {
      same = false;
      report("collective mismatch",
             cat("call ", number, ": rank ", c->rank, " makes ", describe(call), ", rank ", peer, " ",
                 describe(other)),
             where);
    }
    for (const OrderMark& mine : call.others)
      for (const OrderMark& theirs : other.others)
        if (mine.communicator != 0 && mine.communicator == theirs.communicator && mine.calls != theirs.calls)
          report("collective mismatch",
                 cat("call ", number, ", ", describe(call), ": rank ", c->rank, " makes it after ",
                     mine.calls, " calls of another communicator, rank ", peer, " after ", theirs.calls,
                     "; on a GPU that order can hang"),
                 where);
  }
  return same;
}

void Round::deliver() const {
  if (!op_writes(receive, receive_bytes) || receive_bytes == 0) return;
  auto* to = static_cast<char*>(receive);
  const std::size_t size = size_of(call.type);
  switch (call.kind) {
    case Collective::all_gather:
      for (int rank = 0; rank < c->ranks; ++rank)
        std::memcpy(to + rank * send_bytes, c->board.message(rank), send_bytes);
      return;
    case Collective::broadcast: std::memcpy(to, c->board.message(call.root), receive_bytes); return;
    case Collective::reduce_scatter: return reduce(c, call, c->rank * call.count, receive_bytes / size, to);
    case Collective::all_reduce:
    case Collective::reduce: return reduce(c, call, 0, receive_bytes / size, to);
  }
}

bool Round::run() {
  if (c->aborted) return true;
  if (!post()) return false;
  for (int peer = 0; peer < c->ranks; ++peer)
    if (c->board.seat(peer).posted < number) return false;
  if (agree())
    deliver();
  else if (op_writes(receive, receive_bytes) && receive_bytes != 0)
    std::memset(receive, 0xff, receive_bytes);
  c->finished = number;
  c->board.seat(c->rank).taken = number;
  return true;
}

// Communicators of a device by identity, to see in which order a rank uses them.
struct Order {
  std::mutex mutex;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> calls;
};

Order& order() {
  static auto* only = new Order;
  return *only;
}

std::array<OrderMark, 8> marks_of(const ncclComm& c) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  o.calls[{c.device.index(), c.identity}] = c.made;
  std::array<OrderMark, 8> marks{};
  std::size_t used = 0;
  for (const auto& [key, calls] : o.calls)
    if (key.first == c.device.index() && key.second != c.identity && used < marks.size())
      marks[used++] = {key.second, calls};
  return marks;
}

// Between ncclGroupStart and ncclGroupEnd.
struct Letter {
  bool send;
  void* data;
  std::size_t bytes;
  int type, peer;
  ncclComm* c;
  cudaStream_t stream;
  bool done = false;
};
thread_local int group_depth = 0;
thread_local std::vector<std::function<void()>> grouped;
thread_local std::vector<Letter> letters;

void enqueue(ncclComm* c, cudaStream_t handle, const std::string& name, const std::function<bool()>& run) {
  Stream* stream = stream_of(handle);
  if (stream->device != &c->device) {
    report("wrong device", cat(name, " is enqueued on a stream of another device than its communicator's"),
           CallStack::here().text());
    return;
  }
  const std::lock_guard lock(c->device.mutex());
  // Calls of one communicator run one after the other, also on different streams.
  std::vector<WorkPtr> after;
  if (!c->open.empty() && !c->open.back()->done) after.push_back(c->open.back());
  c->open.push_back(c->device.enqueue(stream, name, run, after));
}

ncclResult_t collective(ncclComm* c, const CollectiveCall& call, const void* send, void* receive,
                        std::size_t send_count, std::size_t receive_count, cudaStream_t stream) {
  const std::size_t size = size_of(call.type);
  if (send_count * size > kMessageBytes || receive_count * size > kMessageBytes * kMostRanks)
    stop(cat("a collective of ", send_count * size, " bytes is too large for the emulator"),
         CallStack::here().text());
  const auto go = [=] {
    const std::lock_guard lock(c->device.mutex());
    auto round = std::make_shared<Round>(
        Round{c, ++c->made, call, send, receive, send_count * size, receive_count * size});
    round->call.others = marks_of(*c);
    enqueue(c, stream, cat("nccl ", describe(call), ", call ", round->number),
            [round] { return round->run(); });
  };
  if (group_depth > 0)
    grouped.emplace_back(go);
  else
    go();
  return ncclSuccess;
}

bool send(Letter* l) {
  Mailbox& box = l->c->board.mailbox(l->c->rank, l->peer);
  if (box.sent != box.taken) return false;
  if (op_reads(l->data, l->bytes)) std::memcpy(l->c->board.letter(l->c->rank, l->peer), l->data, l->bytes);
  box.bytes = l->bytes;
  box.type = l->type;
  ++box.sent;
  return true;
}

bool receive(Letter* l) {
  Mailbox& box = l->c->board.mailbox(l->peer, l->c->rank);
  if (box.sent == box.taken) return false;
  if (box.bytes != l->bytes || box.type != l->type)
    report("collective mismatch",
           cat("rank ", l->c->rank, " receives ", l->bytes, " bytes of ", name_of(l->type), " from rank ",
               l->peer, ", which sent ", box.bytes, " of ", name_of(box.type)),
           cat("rank ", l->c->rank));
  if (op_writes(l->data, l->bytes))
    std::memcpy(l->data, l->c->board.letter(l->peer, l->c->rank), std::min(l->bytes, box.bytes));
  ++box.taken;
  return true;
}

// All letters of a group are one piece of work: none waits for another.
void post_letters() {
  if (letters.empty()) return;
  auto all = std::make_shared<std::vector<Letter>>(std::move(letters));
  letters.clear();
  ncclComm* c = all->front().c;
  enqueue(c, all->front().stream, cat("nccl send and receive of ", all->size()), [all, c] {
    bool finished = true;
    for (Letter& l : *all) {
      if (!l.done && !c->aborted) l.done = l.send ? send(&l) : receive(&l);
      finished = finished && (l.done || c->aborted);
    }
    return finished;
  });
}

ncclResult_t letter(const Letter& l) {
  if (l.bytes > kMessageBytes)
    stop(cat("a message of ", l.bytes, " bytes is too large for the emulator"), "");
  letters.push_back(l);
  if (group_depth == 0) post_letters();
  return ncclSuccess;
}

void leave(ncclComm* c) {
  c->device.remove_service(c);
  const std::lock_guard lock(order().mutex);
  order().calls.erase({c->device.index(), c->identity});
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/zt-nccl-%d-%08x%08x", getpid(), random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  *comm = new ncclComm(id.internal, ranks, rank);
  (*comm)->device.add_service(*comm);
  marks_of(**comm);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  std::deque<WorkPtr> open;
  {
    const std::lock_guard lock(c->device.mutex());  // its server looks at them too
    open.swap(c->open);
  }
  bool finished = true;
  for (const WorkPtr& work : open) {
    if (work->done) continue;
    report("nccl", cat("a communicator ends while `", work->op->name, "` has not run"),
           CallStack::here().text());
    finished = c->device.wait(work, "ncclCommDestroy") && finished;
  }
  leave(c);
  if (finished) delete c;  // work that hangs still names it
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
  {
    const std::lock_guard lock(c->device.mutex());
    c->aborted = true;
  }
  leave(c);
  return ncclSuccess;
}

// The library learns of failures from the network alone: peers on one node or in one process that have aborted, or are no
// more, leave kernels waiting.
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* error) {
  if (c->aborted) report("nccl", "a communicator is used after its abort", CallStack::here().text());
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int* count) {
  *count = c->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t c, int* device) {
  *device = c->device.index();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int* rank) {
  *rank = c->rank;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t c, cudaStream_t stream) {
  return collective(c, {Collective::all_reduce, count, type, reduction, 0, {}}, from, to, count, count,
                    stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  return collective(c, {Collective::all_gather, count, type, 0, 0, {}}, from, to, count, count * c->ranks,
                    stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t c, cudaStream_t stream) {
  return collective(c, {Collective::reduce_scatter, count, type, reduction, 0, {}}, from, to,
                    count * c->ranks, count, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream) {
  return collective(c, {Collective::broadcast, count, type, 0, root, {}}, from, to,
                    c->rank == root ? count : 0, count, stream);
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t c, cudaStream_t stream) {
  return collective(c, {Collective::reduce, count, type, reduction, root, {}}, from, to, count,
                    c->rank == root ? count : 0, stream);
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream) {
  return letter({true, const_cast<void*>(data), count * size_of(type), type, peer, c, stream});
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream) {
  return letter({false, data, count * size_of(type), type, peer, c, stream});
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  for (const auto& go : std::exchange(grouped, {})) go();
  post_letters();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "emulated NCCL error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }
}
