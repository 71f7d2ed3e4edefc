#include "comm/ranks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>

#include "base/error.h"
#include "base/text.h"
#include "comm/peers.h"

namespace zt::comm {

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  Troubles::note();
  throw Error(Blame::peer, cat(call, " failed: ", std::string_view(text.data(), std::size_t(length))),
              "another rank may have ended, or the network between nodes is broken");
}

static std::atomic<bool> some_collective_failed = false;

Troubles::Troubles() : exceptions_at_start_(std::uncaught_exceptions()) {}
void Troubles::note() { some_collective_failed = true; }
bool Troubles::any() const {
  return some_collective_failed || std::uncaught_exceptions() > exceptions_at_start_;
}

Ranks::Ranks(MPI_Comm raw, std::vector<int> in_job, double timeout_seconds)
    : raw_(raw), in_job_(std::move(in_job)), timeout_seconds_(timeout_seconds) {
  check_mpi(MPI_Comm_set_errhandler(raw_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(raw_, &rank_), "MPI_Comm_rank");
}

Ranks::~Ranks() {
  if (!troubled()) MPI_Comm_free(&raw_);
}

static int size_of_job() {
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

std::unique_ptr<Ranks> Ranks::world(double timeout_seconds) {
  MPI_Comm raw = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &raw), "MPI_Comm_dup");
  std::vector<int> in_job;
  for (int r = 0; r < size_of_job(); ++r) in_job.push_back(r);
  return std::make_unique<Ranks>(raw, std::move(in_job), timeout_seconds);
}

std::unique_ptr<Ranks> Ranks::split(const std::vector<int>& colors) const {
  const int color = colors[std::size_t(rank_)];
  std::vector<int> in_job;
  for (int r = 0; r < size(); ++r)
    if (colors[std::size_t(r)] == color) in_job.push_back(this->in_job(r));
  // MPI wants colours from zero: the first rank of a colour names it.
  const auto first = int(std::find(colors.begin(), colors.end(), color) - colors.begin());
  MPI_Comm raw = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(raw_, first, rank_, &raw), "MPI_Comm_split");
  return std::make_unique<Ranks>(raw, std::move(in_job), timeout_seconds_);
}

// One in a process, however many communicators it has over all ranks: a rank is only in one place.
std::shared_ptr<Ledgers> Ranks::ledgers() const {
  static std::shared_ptr<Ledgers> of_job;
  if (in_job_.size() != std::size_t(size_of_job())) return nullptr;
  if (of_job == nullptr) of_job = std::make_shared<Ledgers>(in_job_.size());
  return of_job;
}

bool Ranks::on_one_node() const {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(raw_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int together = 0;
  check_mpi(MPI_Comm_size(node, &together), "MPI_Comm_size");
  MPI_Comm_free(&node);
  return together == size();
}

void Ranks::rendezvous(const std::function<void()>& idle) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(raw_, &request), "MPI_Ibarrier");
  Patience patience(kLongestSeconds);
  for (int here = 0;;) {
    check_mpi(MPI_Test(&request, &here, MPI_STATUS_IGNORE), "MPI_Test");
    if (here != 0) return;
    patience.pause();
    idle();
  }
}

std::vector<int> exchange_colors(Communicator& comm, int color) {
  std::vector<int> colors(std::size_t(comm.size()), 0);
  comm.exchange(std::span<const int>(&color, 1), std::span<int>(colors));
  return colors;
}

}  // namespace zt::comm
