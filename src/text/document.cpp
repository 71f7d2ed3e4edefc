#include "text/document.h"

#include "base/error.h"
#include "base/text.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

constexpr std::size_t kDocumentLimit = std::size_t{1} << 30;

}  // namespace

void require_document(std::string_view text) {
  if (text.size() > kDocumentLimit)
    throw Error(Blame::data,
                cat("a document of ", human_bytes(std::int64_t(text.size())), " is over the limit of ",
                    human_bytes(std::int64_t(kDocumentLimit))),
                "split it; one document is encoded as a whole");
  require_utf8(text);
}

void refuse_id(std::int32_t id, std::int32_t vocabulary) {
  throw Error(Blame::data, cat("id ", id, " has no token; the vocabulary has ids 0 to ", vocabulary - 1));
}

}  // namespace zt::text
