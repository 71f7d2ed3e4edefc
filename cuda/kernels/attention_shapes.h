// Sizes of the attention kernels' tiles, shared with those who reckon their occupancy.
#pragma once

namespace zt::kernels {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kPiece = 8;  // numbers in 16 bytes

// Numbers from one row of a tile to the next. A row's length is an odd number of 16-byte pieces, so eight rows' pieces
// of one column lie in different banks.
template <int D>
constexpr int kRow = D + kPiece;

template <int D>
struct ForwardTiles {
  // 32 queries a warp halve the reads of keys and values; the wider heads leave registers for fewer keys' scores.
  static constexpr int kAtoms = 2;
  static constexpr int kQueries = kWarps * 16 * kAtoms, kKeys = D <= 80 ? 64 : D <= 96 ? 48 : 32;
  static constexpr int kBytes = (kQueries + 2 * kKeys) * kRow<D> * 2;
};

// Of the forward kernel for sm_90a.
template <int D>
struct WarpgroupTiles {
  static constexpr int kConsumers = 256, kThreads = kConsumers + 128;
  static constexpr int kQueries = 128, kKeys = 128, kStages = 2;
  static constexpr int kQueryBytes = kQueries * D * 2, kQueryPanelBytes = kQueries * 128;
  static constexpr int kKeyBytes = kKeys * D * 2, kPanelBytes = kKeys * 128;
  static constexpr int kBytes =
      1024 + kQueryBytes + kStages * 2 * kKeyBytes;  // panels start at multiples of 1024
};

// Of the backward kernels for sm_90a: two warpgroups with 64 own rows each. How many other rows a step takes is as many as
// the scores, their gradients and the sums leave registers for: 160 to 192 of a thread's 240.
template <int D>
struct WarpgroupKeysTiles {
  static constexpr int kConsumers = 256, kThreads = kConsumers + 128;
  static constexpr int kKeys = 128, kQueries = 64, kStages = 3;
  static constexpr int kKeyBytes = kKeys * D * 2, kKeyPanelBytes = kKeys * 128;
  static constexpr int kQueryBytes = kQueries * D * 2, kQueryPanelBytes = kQueries * 128;
  // Two own tiles, and stages of two other tiles and two f32 a query.
  static constexpr int kBytes = 1024 + 2 * kKeyBytes + kStages * 2 * (kQueryBytes + kQueries * 4);
};
template <int D>
struct WarpgroupQueriesTiles {
  static constexpr int kConsumers = 256, kThreads = kConsumers + 128;
  static constexpr int kQueries = 128, kKeys = D <= 64 ? 128 : 64;
  static constexpr int kQueryBytes = kQueries * D * 2, kQueryPanelBytes = kQueries * 128;
  static constexpr int kKeyBytes = kKeys * D * 2, kKeyPanelBytes = kKeys * 128;
  // Keys are used once more, a step after their values.
  static constexpr int kKeyStages = 3, kValueStages = 2;
  static constexpr int kBytes = 1024 + 2 * kQueryBytes + (kKeyStages + kValueStages) * kKeyBytes;
};

template <int D>
struct BackwardTiles {
  static constexpr int kOwn = kWarps * 16;          // rows whose gradients a block sums
  static constexpr int kOther = D <= 96 ? 64 : 32;  // rows it looks at in one step
  static constexpr int kOwnSize = kOwn * kRow<D>, kOtherSize = kOther * kRow<D>;
  // Two own tiles, and two stages of two other tiles.
  static constexpr int kQueriesBytes = (2 * kOwnSize + 4 * kOtherSize) * 2;
  // The walk over queries also brings two f32 a row, in two stages.
  static constexpr int kKeysBytes = kQueriesBytes + 4 * kOther * 4;
};

}  // namespace zt::kernels
