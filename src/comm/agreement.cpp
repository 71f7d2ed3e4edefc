#include "comm/agreement.h"

#include <new>
#include <vector>

#include "base/text.h"

namespace zt::comm {
namespace {

struct Status {
  std::int64_t failed = 0, blame = 0, problem_bytes = 0, hint_bytes = 0;
};

Status status_of(const std::optional<Error>& error) {
  if (!error) return {};
  return {1, std::int64_t(error->blame()), std::int64_t(error->problem().size()),
          std::int64_t(error->hint().size())};
}

std::string broadcast(Communicator& communicator, std::string text, std::int64_t bytes, int root) {
  text.resize(std::size_t(bytes));
  if (bytes > 0) communicator.broadcast(text.data(), bytes, root);
  return text;
}

}  // namespace

std::optional<Error> attempt(const std::function<void()>& work) noexcept {
  try {
    work();
    return {};
  } catch (const Error& e) {
    return e;
  } catch (const std::filesystem::filesystem_error& e) {
    return Error(Blame::machine, e.what());
  } catch (const std::bad_alloc&) {
    return Error(Blame::machine, "memory ran out");
  } catch (const std::exception& e) {
    return Error(Blame::bug, e.what());
  }
}

void work_and_agree(Communicator& communicator, const std::function<void()>& work,
                    const std::function<void()>& idle) {
  const std::optional<Error> mine = attempt(work);
  communicator.rendezvous(idle);
  agree(communicator, mine);
}

void agree(Communicator& communicator, const std::optional<Error>& mine) {
  // Ranks that cannot reach each other cannot agree about it.
  if (mine && mine->blame() == Blame::peer) throw Error(*mine);
  const Status status = status_of(mine);
  std::vector<Status> all(std::size_t(communicator.size()));
  communicator.exchange<Status>({&status, 1}, all);
  int first = -1, others = -1;
  for (int rank = communicator.size() - 1; rank >= 0; --rank) {
    if (all[std::size_t(rank)].failed == 0) continue;
    first = rank;
    ++others;
  }
  if (first < 0) return;
  const Status& cause = all[std::size_t(first)];
  const bool me = communicator.rank() == first;
  const std::string problem = broadcast(communicator, me ? mine->problem() : "", cause.problem_bytes, first);
  const std::string hint = broadcast(communicator, me ? mine->hint() : "", cause.hint_bytes, first);
  if (others == communicator.size() - 1) throw AgreedError(Blame(cause.blame), problem, hint);
  throw AgreedError(
      Blame(cause.blame),
      cat("rank ", first, ": ", problem,
          others > 0 ? cat(" (", others, others == 1 ? " other rank" : " other ranks", " failed too)") : ""),
      hint);
}

void require_same(Communicator& communicator, const std::string& fingerprint, Blame blame,
                  const std::string& what, const std::string& hint) {
  const std::size_t width = fingerprint.size();
  std::string all(width * std::size_t(communicator.size()), ' ');
  communicator.exchange<char>(fingerprint, all);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const std::string first = all.substr(0, width), other = all.substr(std::size_t(rank) * width, width);
    if (other == first) continue;
    throw AgreedError(
        blame, cat("ranks 0 and ", rank, " ", what, " (fingerprints ", first, " and ", other, ")"), hint);
  }
}

}  // namespace zt::comm
