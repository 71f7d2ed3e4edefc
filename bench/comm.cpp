// How fast the collectives are among ranks of one machine, beside copying memory and the MPI library's own, in
// one run. Plain program:
//
//   mpirun -n 2 build/release/bench/comm [MEGABYTES]      # 64 by default
//
// Bus bandwidth is S (N-1) / N / t for S bytes in all and N ranks: what each rank must at least send. Time is
// that of the slowest rank, best of 7. Wanted for a reduce-scatter of 64 MB fp32 on 2 ranks: 2 GB/s over
// messages, 4 GB/s over windows. Results are checked.
#define OMPI_SKIP_MPICXX 1
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"

namespace zt {
namespace {

using comm::Communicator;

constexpr int kTimes = 7;
constexpr double kPatient = 60;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Small whole numbers, so that sums are exact and checks need no tolerance.
float value(int rank, std::int64_t i) { return float((i + 3 * rank) % 17 - 8); }

class Bench {
 public:
  Bench(Communicator& comm, std::int64_t bytes)
      : comm_(comm),
        n_(bytes / 4 / comm.size()),
        whole_(std::size_t(n_ * comm.size())),
        out_(std::size_t(n_)) {}

  // `bytes` are those that count for the bandwidth; what a rank sends when not given.
  void run(const std::string& what, const std::function<void()>& work, const std::function<bool()>& right,
           double bytes = 0) {
    double best = 1e30;
    bool good = true;
    for (int i = 0; i <= kTimes; ++i) {  // the first also touches memory
      fill();
      comm_.barrier();
      const double start = now();
      work();
      const double took = slowest(now() - start);
      if (i > 0) best = std::min(best, took);
      good = good && right();
    }
    const double sent = double(whole_.size()) * 4 * (comm_.size() - 1) / comm_.size();
    report(what, best, bytes > 0 ? bytes : sent, slowest(good ? 0 : 1) == 0);
  }

  void reduce_scatter(Dtype wire) {
    run(
        cat(comm_.transport(), ", reduce_scatter, ", wire == Dtype::f32 ? "fp32" : "fp32 as bf16"),
        [&] { comm_.reduce_scatter(whole_.data(), Dtype::f32, wire, n_); },
        [&] { return sums(whole_.data() + comm_.rank() * n_); });
  }
  void all_gather() {
    run(
        cat(comm_.transport(), ", all_gather"), [&] { comm_.all_gather(whole_.data(), n_ * 4); },
        [&] { return gathered(); });
  }
  void mpi_itself() {
    run(
        "the MPI library, MPI_Reduce_scatter_block",
        [&] {
          MPI_Reduce_scatter_block(whole_.data(), out_.data(), int(n_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        },
        [&] { return sums(out_.data()); });
    run(
        "the MPI library, MPI_Allgather",
        [&] {
          MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole_.data(), int(n_), MPI_FLOAT,
                        MPI_COMM_WORLD);
        },
        [&] { return gathered(); });
  }
  // One core copying as many bytes as a slice has, all ranks at once.
  void copying() {
    run(
        "memcpy of one slice on every rank",
        [&] { std::memcpy(out_.data(), whole_.data(), out_.size() * 4); },
        [&] { return out_.back() == whole_[std::size_t(n_ - 1)]; }, double(out_.size()) * 4);
  }
  void small(const std::string& what, const std::function<void()>& work) {
    constexpr int kCalls = 1000;
    double best = 1e30;
    for (int i = 0; i <= kTimes; ++i) {
      comm_.barrier();
      const double start = now();
      for (int k = 0; k < kCalls; ++k) work();
      const double took = slowest(now() - start);
      if (i > 0) best = std::min(best, took);
    }
    if (comm_.rank() == 0)
      fmt::print("{:<56}{:>10.1f} us\n", cat(comm_.transport(), ", ", what), best / kCalls * 1e6);
  }
  void small_messages() {
    double mine = 1;
    std::vector<double> all(std::size_t(comm_.size()), 0.);
    small("exchange of 8 bytes",
          [&] { comm_.exchange(std::span<const double>(&mine, 1), std::span<double>(all)); });
    small("barrier", [&] { comm_.barrier(); });
    small("broadcast of 8 bytes", [&] { comm_.broadcast(&mine, 8, 0); });
  }

 private:
  void fill() {
    for (std::size_t i = 0; i < whole_.size(); ++i) whole_[i] = value(comm_.rank(), std::int64_t(i));
  }
  bool sums(const float* slice) const {
    for (std::int64_t i = 0; i < n_; ++i) {
      float want = 0;
      for (int r = 0; r < comm_.size(); ++r) want += value(r, comm_.rank() * n_ + i);
      if (slice[i] != want) return false;
    }
    return true;
  }
  bool gathered() const {
    for (std::int64_t i = 0; i < std::int64_t(whole_.size()); ++i)
      if (whole_[std::size_t(i)] != value(int(i / n_), i)) return false;
    return true;
  }
  double slowest(double mine) {
    std::vector<double> all(std::size_t(comm_.size()), 0.);
    comm_.exchange(std::span<const double>(&mine, 1), std::span<double>(all));
    return *std::max_element(all.begin(), all.end());
  }
  void report(const std::string& what, double seconds, double bytes, bool right) {
    if (comm_.rank() == 0)
      fmt::print("{:<56}{:>10.2f} ms {:>8.2f} GB/s{}\n", what, seconds * 1e3, bytes / seconds * 1e-9,
                 right ? "" : "   WRONG RESULT");
    if (!right) comm::MpiSession::abort(1);
  }

  Communicator& comm_;
  std::int64_t n_;
  std::vector<float> whole_, out_;
};

void measure(Communicator& comm, std::int64_t bytes) {
  Bench bench(comm, bytes);
  bench.reduce_scatter(Dtype::f32);
  bench.reduce_scatter(Dtype::bf16);
  bench.all_gather();
  bench.small_messages();
}

int run(int argc, char** argv) {
  const std::int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 64) * 1000000;
  comm::MpiSession session;
  const auto windows = session.world(kPatient), messages = session.world_over_messages(kPatient);
  if (windows->size() == 1) throw Error(Blame::usage, "start it under mpirun with 2 or more ranks");
  if (windows->rank() == 0)
    fmt::print("{} ranks, {} MB in all; GB/s of bus bandwidth\n", windows->size(), bytes / 1000000);
  measure(*windows, bytes);
  measure(*messages, bytes);
  Bench bench(*windows, bytes);
  bench.mpi_itself();
  bench.copying();
  return 0;
}

}  // namespace
}  // namespace zt

int main(int argc, char** argv) {
  try {
    return zt::run(argc, argv);
  } catch (const zt::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return exit_status(e.blame());
  }
}
