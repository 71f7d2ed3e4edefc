#include "data/documents.h"

#include <algorithm>

#include "base/error.h"

namespace zt::data {

Documents::Documents(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& path : files) {
    TokenFile file(path);
    const std::int64_t skipped = file.notes().continues && file.documents() > 0 ? 1 : 0;
    const std::int64_t tokens = file.tokens(), begun = file.documents() - skipped;
    parts_.push_back({std::move(file), tokens_, documents_, skipped});
    tokens_ += tokens;
    documents_ += begun;
  }
}

const Documents::Part& Documents::part_of_token(std::int64_t at) const {
  const auto after = std::ranges::upper_bound(parts_, at, {}, &Part::first_token);
  return *(after - 1);
}

const Documents::Part& Documents::part_of_document(std::int64_t document) const {
  const auto after = std::ranges::upper_bound(parts_, document, {}, &Part::first_document);
  return *(after - 1);
}

std::int64_t Documents::document_begin(std::int64_t document) const {
  if (document >= documents_) return tokens_;
  const Part& part = part_of_document(document);
  return part.first_token + part.file.document_begin(document - part.first_document + part.skipped);
}

std::int32_t Documents::token(std::int64_t at) const {
  const Part& part = part_of_token(at);
  return part.file.token(at - part.first_token);
}

bool Documents::trained(std::int64_t at) const {
  const Part& part = part_of_token(at);
  return part.file.trained(at - part.first_token);
}

Origin Documents::origin(std::int64_t document) const {
  const Part& part = part_of_document(document);
  return part.file.origin(document - part.first_document + part.skipped);
}

std::string Documents::digest() const {
  std::string all;
  for (const Part& part : parts_) all += part.file.digest();
  return digest_of(all);
}

std::vector<std::string> Documents::notes() const {
  std::vector<std::string> notes;
  for (const Part& part : parts_) notes.push_back(part.file.notes().text);
  return notes;
}

}  // namespace zt::data
