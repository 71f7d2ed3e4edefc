// Documents into rows of one length, whole, as many as fit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace zt::data {

// How many documents are looked at together, and how many rows are open at once.
constexpr std::int64_t kPackingWindow = 4096;
constexpr std::size_t kOpenRows = 1024;

// Rows as lists of document numbers, one after another.
struct PackedDocuments {
  std::vector<std::int64_t> documents;
  std::vector<std::int64_t> begins{0};  // row r holds documents[begins[r]] to documents[begins[r + 1]]
  std::int64_t rows() const { return static_cast<std::int64_t>(begins.size()) - 1; }
  std::span<const std::int64_t> row(std::int64_t number) const;
};

// Best fit decreasing over windows: the documents of a window go from the longest to the shortest, each into the open
// row it fills best, which may have been opened for an earlier window; of too many open rows the fullest are closed.
// `length(d)` is between 1 and `room` for each of the `count` documents. Memory: 8 bytes a document, and the window.
//
// Source: Johnson 1973, "Near-optimal bin packing algorithms"; best fit decreasing needs at most 11/9 of the best
// number of rows.
PackedDocuments pack(std::int64_t count, std::int64_t room,
                     const std::function<std::int64_t(std::int64_t)>& length);

}  // namespace zt::data
