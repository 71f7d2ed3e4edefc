// Which settings of a recipe's step are fastest on a cluster, of those that fit its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/fit.h"
#include "plan/step_time.h"

namespace zt::plan {

// One way to run the same training: the same model, rows, global batch and arithmetic.
struct Candidate {
  recipe::Recipe recipe;
  std::string
      settings;  // the changes, as a command line says them: "--set zero.stage=2 ..."; empty: the recipe's own
  std::int64_t bytes = 0;  // as the room counts them
  double seconds = 0;      // of a step; 0 where it does not fit
};

// Settings that do not fit, by what they have in common.
struct Misfit {
  std::string what;  // "stage 0"
  int count = 0;
  std::int64_t least = 0;  // bytes of the smallest of them
  std::string filled_by;   // its largest rows
};

struct Search {
  // That fit, the fastest first; none takes as long as another (to 0.1 %) and as much memory. At most kBestShown.
  std::vector<Candidate> best;
  std::vector<Misfit> misfits;  // by stage and micro-batch
  int tried = 0, fitted = 0;
};
inline constexpr std::size_t kBestShown = 10;

// Tries stage, micro-batch, recomputation, prefetch, resharding, kept blocks and the number of reductions. First every
// stage x micro-batch x recomputation with usual transfers, then the transfers of the fastest of them. Nothing here changes
// results beyond what docs/RUNNING.md says of accumulation splits. A step's time grows by the same amount with each
// micro-batch after the second, so few are played.
Search search(const recipe::Recipe& recipe, const spec::ModelSpec& model, const Cluster& cluster,
              const Room& room);

// The recipe with one setting changed, the changes that make its step fastest first, and only those that do by 1 % or
// more and fit; none for models of more than 512 layers. `own` is the recipe's own time.
std::vector<Candidate> best_changes(const recipe::Recipe& recipe, const spec::ModelSpec& model,
                                    const Cluster& cluster, const Room& room, double own);

// Tables for a terminal.
std::string text(const Search& search, double own_seconds);

}  // namespace zt::plan
