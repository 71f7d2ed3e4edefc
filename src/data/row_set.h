// Documents cut or packed into rows of one length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/documents.h"
#include "data/packing.h"

namespace zt::data {

constexpr std::int32_t kIgnored = -100;

// What the trainer sees of one row. `labels` are not shifted: labels[i] is ids[i] where it is trained, else
// -100. `documents` are the bounds of the documents inside the row, from 0 to the number of ids.
struct Row {
  std::string id;  // stable: the first document's, and how many others
  std::vector<std::int32_t> ids, labels, documents;
  std::vector<std::string> sources = {};  // the ids of its documents
};

// What a row costs: matrix products grow with its tokens, attention with the sum of its documents' squared lengths.
struct RowCost {
  std::int64_t tokens = 0;
  double squares = 0;
};

// The rows of one source. All are known when it is made; none is kept in memory.
class RowSet {
 public:
  virtual ~RowSet() = default;
  virtual std::int64_t rows() const = 0;
  virtual Row row(std::int64_t number) const = 0;
  virtual RowCost cost(std::int64_t number) const = 0;
  // The ids of a row's documents, without the rest of it.
  virtual std::vector<std::string> sources(std::int64_t number) const = 0;
  virtual std::int64_t documents() const = 0;  // in all rows
  virtual std::int64_t tokens() const = 0;     // in all documents, each once
  virtual std::string digest() const = 0;      // of everything that decides the rows
};

// Raw text: a document that goes on in the next row is repeated there by its last id, so that every step from one
// token to the next is trained exactly once. With `packing` a row holds as many documents as fit; without, one (or a
// part of one). Ids are NAME#DOCUMENT+OFFSET.
std::unique_ptr<RowSet> rows_of_text(std::shared_ptr<const Documents> documents, std::string name,
                                     std::int64_t length, bool packing);

// Whole documents only: `which` of them, packed (see packing.h) or each in a row of its own; what is longer than
// `length` is cut there. Ids are NAME#ROW, by the row's number in its source.
std::unique_ptr<RowSet> rows_of_documents(std::shared_ptr<const Documents> documents, std::string name,
                                          std::vector<std::int64_t> which, std::int64_t length, bool packing);

}  // namespace zt::data
