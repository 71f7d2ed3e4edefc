// The bill of a rank's memory and of its run's disk: every byte in a row that says what for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/words.h"
#include "spec/model.h"

namespace zt::plan {

struct StepShape;
struct StepPlan;

// Whose bytes a row counts: `device` is what one rank claims for its step (on a CPU that too is the host's memory),
// `host` what its process holds beside that, `disk` what the whole run writes, over all ranks.
enum class Place : std::uint8_t { device, host, disk };

inline std::vector<recipe::Word<Place>> words(Place) {
  return {{Place::device, "device"}, {Place::host, "host"}, {Place::disk, "disk"}};
}

// The id of a row is for programs and never changes its meaning; `what` is for people.
//
//   device  parameters master_copy moments gradients
//           gathered_weights whole_gradients block_inputs activations recomputed activation_gradients arena_gaps: the
//           arena at its busiest op, see memory_timeline.h; the gaps are bytes that no slot uses at that op
//           logits_chunk workspace batches rotary_tables communication half_precision_tiles kernel_workspace
//           checkpoint_staging held_state (on a GPU: host)
//           libraries (of a GPU)
//   host    program kernel_scratch tokenizer: see program.h
//   disk    checkpoint checkpoints_beside export
struct BillRow {
  std::string id, what;
  std::int64_t bytes = 0;
  Place place = Place::device;
  friend bool operator==(const BillRow&, const BillRow&) = default;
};

// The rows of a planned step in the order people read them. `plan` has its lists, arena and workspace.
std::vector<BillRow> bill_of(const spec::ModelSpec& model, const StepShape& shape, const StepPlan& plan);

std::int64_t sum(const std::vector<BillRow>& bill, Place place);
// Bytes of the row of that id; 0 where there is none.
std::int64_t bytes_of(const std::vector<BillRow>& bill, std::string_view id);

// The rows of memory that have the most, at most `most` of them, in words: "gradients, float32 4.01 GiB, ...".
std::string largest_rows(std::vector<BillRow> bill, std::size_t most);

// The rows as a table with shares and sums, place by place.
std::string bill_text(const StepPlan& plan);

// What a checkpoint takes over all ranks: fp32 values of all weights, moments of the trained ones, and the
// bookkeeping of HDF5 and the manifest (about 3 kB a tensor and rank, without the tokenizer's files).
std::int64_t checkpoint_bytes(const spec::ModelSpec& model, int ranks);

}  // namespace zt::plan
