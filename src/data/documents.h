// The tokenized documents of one source: its token files, one after another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace zt::data {

// Documents and tokens are numbered through all files; a document may span several.
class Documents {
 public:
  // In order. Errors as TokenFile.
  explicit Documents(const std::vector<std::filesystem::path>& files);

  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t document_begin(std::int64_t document) const;  // document_begin(documents()) == tokens()
  std::int64_t length(std::int64_t document) const {
    return document_begin(document + 1) - document_begin(document);
  }
  std::int32_t token(std::int64_t at) const;
  bool trained(std::int64_t at) const;
  Origin origin(std::int64_t document) const;
  std::string digest() const;  // of all files
  std::vector<std::string> notes() const;

 private:
  struct Part {
    TokenFile file;
    std::int64_t first_token, first_document;  // first_document: of those that begin in this file
    std::int64_t skipped;                      // 1 where the file's first document began before it
  };
  const Part& part_of_token(std::int64_t at) const;
  const Part& part_of_document(std::int64_t document) const;

  std::vector<Part> parts_;
  std::int64_t tokens_ = 0, documents_ = 0;
};

}  // namespace zt::data
