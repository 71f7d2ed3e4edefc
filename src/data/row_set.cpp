#include "data/row_set.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace {

std::string id_of(const std::vector<std::string>& sources) {
  return sources.size() > 1 ? cat(sources.front(), " and ", sources.size() - 1, " more") : sources.front();
}

class TextRows final : public RowSet {
 public:
  TextRows(std::shared_ptr<const Documents> documents, std::string name, std::int64_t length, bool packing)
      : documents_(std::move(documents)), name_(std::move(name)), length_(length), packing_(packing) {
    Start at{0, 0};
    while (at.document < documents_->documents()) {
      const Start next = walk(at, [](std::int64_t, std::int64_t, std::int64_t) {});
      if (useful(at)) starts_.push_back(at);
      at = next;
    }
  }

  std::int64_t rows() const override { return static_cast<std::int64_t>(starts_.size()); }
  Row row(std::int64_t number) const override;
  RowCost cost(std::int64_t number) const override;
  std::vector<std::string> sources(std::int64_t number) const override;
  std::int64_t documents() const override { return documents_->documents(); }
  std::int64_t tokens() const override { return documents_->tokens(); }
  std::string digest() const override {
    return digest_of(cat(documents_->digest(), " length ", length_, " packing ", packing_));
  }

 private:
  struct Start {
    std::int64_t document, offset;  // offset of the first id inside the document
  };
  // Walks one row from `at`; calls take(document, first, count) for each piece. Returns where the next row
  // starts.
  template <typename Take>
  Start walk(Start at, Take take) const;
  bool useful(Start at) const;
  Start start(std::int64_t number) const { return starts_.at(static_cast<std::size_t>(number)); }
  std::string piece_id(std::int64_t document, std::int64_t first) const {
    return cat(name_, "#", document, "+", first - documents_->document_begin(document));
  }

  std::shared_ptr<const Documents> documents_;
  std::string name_;
  std::int64_t length_;
  bool packing_;
  std::vector<Start> starts_;
};

template <typename Take>
TextRows::Start TextRows::walk(Start at, Take take) const {
  std::int64_t room = length_;
  while (room > 0 && at.document < documents_->documents()) {
    const std::int64_t begin = documents_->document_begin(at.document) + at.offset;
    const std::int64_t left = documents_->document_begin(at.document + 1) - begin;
    // The first id of a longer document, alone at the row's end, would train nothing.
    if (room == 1 && left > 1) break;
    const std::int64_t count = std::min(room, left);
    if (count > 0) take(at.document, begin, count);
    room -= count;
    // The repeated id alone would train nothing, so a document that just fits is over.
    if (count < left) return {at.document, at.offset + count - 1};
    at = {at.document + 1, 0};
    if (!packing_) break;
  }
  return at;
}

// A row whose documents all have a single id trains nothing.
bool TextRows::useful(Start at) const {
  bool any = false;
  walk(at, [&any](std::int64_t, std::int64_t, std::int64_t count) { any |= count > 1; });
  return any;
}

Row TextRows::row(std::int64_t number) const {
  Row row;
  row.documents.push_back(0);
  walk(start(number), [&](std::int64_t document, std::int64_t begin, std::int64_t count) {
    row.sources.push_back(piece_id(document, begin));
    for (std::int64_t i = 0; i < count; ++i) row.ids.push_back(documents_->token(begin + i));
    row.documents.push_back(static_cast<std::int32_t>(row.ids.size()));
  });
  row.id = id_of(row.sources);
  row.labels = row.ids;
  return row;
}

RowCost TextRows::cost(std::int64_t number) const {
  RowCost cost;
  walk(start(number), [&](std::int64_t, std::int64_t, std::int64_t count) {
    cost.tokens += count;
    cost.squares += static_cast<double>(count) * static_cast<double>(count);
  });
  return cost;
}

std::vector<std::string> TextRows::sources(std::int64_t number) const {
  std::vector<std::string> ids;
  walk(start(number), [&](std::int64_t document, std::int64_t begin, std::int64_t) {
    ids.push_back(piece_id(document, begin));
  });
  return ids;
}

class DocumentRows final : public RowSet {
 public:
  DocumentRows(std::shared_ptr<const Documents> documents, std::string name, std::vector<std::int64_t> which,
               std::int64_t length, bool packing)
      : documents_(std::move(documents)), name_(std::move(name)), which_(std::move(which)), length_(length) {
    const auto count = static_cast<std::int64_t>(which_.size());
    if (packing) {
      packed_ = pack(count, length, [this](std::int64_t i) { return length_of(i); });
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        packed_.documents.push_back(i);
        packed_.begins.push_back(i + 1);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) tokens_ += length_of(i);
  }

  std::int64_t rows() const override { return packed_.rows(); }
  Row row(std::int64_t number) const override;
  RowCost cost(std::int64_t number) const override;
  std::vector<std::string> sources(std::int64_t number) const override;
  std::int64_t documents() const override { return static_cast<std::int64_t>(which_.size()); }
  std::int64_t tokens() const override { return tokens_; }
  std::string digest() const override;

 private:
  std::int64_t document(std::int64_t i) const { return which_[static_cast<std::size_t>(i)]; }
  std::int64_t length_of(std::int64_t i) const { return std::min(length_, documents_->length(document(i))); }

  std::shared_ptr<const Documents> documents_;
  std::string name_;
  std::vector<std::int64_t> which_;
  std::int64_t length_, tokens_ = 0;
  PackedDocuments packed_;
};

Row DocumentRows::row(std::int64_t number) const {
  Row row;
  row.sources = sources(number);
  row.id = id_of(row.sources);
  row.documents.push_back(0);
  for (const std::int64_t i : packed_.row(number)) {
    const std::int64_t begin = documents_->document_begin(document(i)), count = length_of(i);
    for (std::int64_t at = begin; at < begin + count; ++at) {
      row.ids.push_back(documents_->token(at));
      row.labels.push_back(documents_->trained(at) ? row.ids.back() : kIgnored);
    }
    row.documents.push_back(static_cast<std::int32_t>(row.ids.size()));
  }
  return row;
}

RowCost DocumentRows::cost(std::int64_t number) const {
  RowCost cost;
  for (const std::int64_t i : packed_.row(number)) {
    const auto length = static_cast<double>(length_of(i));
    cost.tokens += length_of(i);
    cost.squares += length * length;
  }
  return cost;
}

std::vector<std::string> DocumentRows::sources(std::int64_t number) const {
  std::vector<std::string> ids;
  for (const std::int64_t i : packed_.row(number))
    ids.push_back(cat(name_, "#", documents_->origin(document(i)).row));
  return ids;
}

std::string DocumentRows::digest() const {
  const auto bytes = [](const std::vector<std::int64_t>& numbers) {
    return digest_of({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]});
  };
  return digest_of(cat(documents_->digest(), " length ", length_, bytes(which_), bytes(packed_.documents),
                       bytes(packed_.begins)));
}

void require_length(std::int64_t length) {
  if (length < 2)
    throw Error(Blame::usage, cat("data.sequence_length must be at least 2, is ", length),
                "a row of one token has nothing to predict");
}

}  // namespace

std::unique_ptr<RowSet> rows_of_text(std::shared_ptr<const Documents> documents, std::string name,
                                     std::int64_t length, bool packing) {
  require_length(length);
  return std::make_unique<TextRows>(std::move(documents), std::move(name), length, packing);
}

std::unique_ptr<RowSet> rows_of_documents(std::shared_ptr<const Documents> documents, std::string name,
                                          std::vector<std::int64_t> which, std::int64_t length,
                                          bool packing) {
  require_length(length);
  return std::make_unique<DocumentRows>(std::move(documents), std::move(name), std::move(which), length,
                                        packing);
}

}  // namespace zt::data
