#include "text/unicode_forms.h"

#include "base/error.h"
#include "base/text.h"
#include "text/utf8.h"

#ifdef ZEROTRAIN_ICU
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#endif

namespace zt::text {
namespace {

std::optional<UnicodeForm> form_named(std::string_view name) {
  if (name == "NFC") return UnicodeForm::nfc;
  if (name == "NFD") return UnicodeForm::nfd;
  if (name == "NFKC") return UnicodeForm::nfkc;
  if (name == "NFKD") return UnicodeForm::nfkd;
  return std::nullopt;
}

}  // namespace

#ifdef ZEROTRAIN_ICU

std::optional<UnicodeForm> unicode_form(std::string_view name) { return form_named(name); }

namespace {

const icu::Normalizer2& normalizer_of(UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case UnicodeForm::nfc: found = icu::Normalizer2::getNFCInstance(status); break;
    case UnicodeForm::nfd: found = icu::Normalizer2::getNFDInstance(status); break;
    case UnicodeForm::nfkc: found = icu::Normalizer2::getNFKCInstance(status); break;
    case UnicodeForm::nfkd: found = icu::Normalizer2::getNFKDInstance(status); break;
  }
  if (U_FAILURE(status))
    throw Error(Blame::machine, cat("ICU has no normalization data: ", u_errorName(status)));
  return *found;
}

}  // namespace

std::string to_unicode_form(std::string text, UnicodeForm form) {
  if (is_ascii(text)) return text;
  const icu::Normalizer2& normalizer = normalizer_of(form);
  UErrorCode status = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), std::int32_t(text.size()));
  if (normalizer.isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return text;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  status = U_ZERO_ERROR;
  normalizer.normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status))
    throw Error(Blame::data, cat("ICU could not normalize a text: ", u_errorName(status)));
  return out;
}

#else

std::optional<UnicodeForm> unicode_form(std::string_view name) {
  if (form_named(name))
    throw Error(Blame::model, cat("normalizer ", name, " needs ICU, which this program was built without"),
                "install libicu-dev, configure and build again");
  return std::nullopt;
}

std::string to_unicode_form(std::string, UnicodeForm) {
  throw Error(Blame::bug, "a Unicode normalization form was asked for in a build without ICU");
}

#endif

}  // namespace zt::text
