#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/fields.h"
#include "checkpoint/state_reader.h"
#include "exchange/json.h"

namespace zt::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "zerotrain checkpoint";
constexpr std::int64_t kVersion = 2, kOldestVersion = 1;
static_assert(kVersion < 10, "the digest's place is the same in every version");
constexpr std::size_t kDigestLength = 32;
constexpr auto kDamaged = "the checkpoint is damaged or was changed by hand; use an older one";

// A manifest begins with exactly this, so that its digest has a fixed place.
std::string head(std::int64_t version = kVersion) {
  return cat("{\n  \"format\": \"", kFormat, "\",\n  \"version\": ", version, ",\n  \"digest\": \"");
}

// The digest of the text with zeros for the digest itself.
std::string own_digest(std::string text) {
  text.replace(head().size(), kDigestLength, kDigestLength, '0');
  return digest_of(text);
}

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// One per line, with a comma between two.
template <typename Map, typename Line>
std::string lines(const Map& map, Line line) {
  std::vector<std::string> out;
  for (const auto& [name, item] : map) out.push_back(cat("    ", quoted(name), ": ", line(item)));
  return out.empty() ? "{}" : cat("{\n", join(out, ",\n"), "\n  }");
}

std::string line_of(const StoredFile& file) {
  return cat("{\"bytes\": ", file.bytes, ", \"digest\": \"", file.digest, "\"}");
}

std::string line_of(const StoredTensor& tensor) {
  std::string out = cat("{\"shape\": ", exchange::text_of(tensor.shape));
  for (const Kind kind : kKinds) {
    if (tensor.of(kind).empty()) continue;
    std::vector<std::string> pieces;
    for (const StoredPiece& p : tensor.of(kind))
      pieces.push_back(
          cat("[", p.rank, ", ", p.first, ", ", p.count, ", ", p.offset, ", \"", p.digest, "\"]"));
    out += cat(", \"", name(kind), "\": [", join(pieces, ", "), "]");
  }
  return out + "}";
}

// Inner lines of a JSON text moved in by two blanks; texts in JSON hold no line ends.
std::string indented(const std::string& text) { return join(split(text, '\n'), "\n  "); }

void read_files(const json& object, Manifest& manifest, exchange::Faults& faults) {
  if (!object.is_object()) return faults.add("files must be an object");
  for (const auto& [name, item] : object.items()) {
    StoredFile file;
    Fields fields(item, cat("files[", exchange::shown(name), "]"), faults);
    fields.integer("bytes", &file.bytes);
    fields.text("digest", &file.digest);
    fields.no_others();
    manifest.files.emplace(name, file);
  }
}

bool read_shape(const json& array, Shape& shape) {
  if (!array.is_array() || array.size() > 64) return false;
  for (const json& item : array) {
    if (!whole_number(item, &shape.emplace_back())) return false;
  }
  return true;
}

// [rank, first, count, offset, digest]
bool read_piece(const json& array, StoredPiece& piece) {
  if (!array.is_array() || array.size() != 5 || !array[4].is_string()) return false;
  std::int64_t rank = 0;
  if (!whole_number(array[0], &rank) || rank < 0 || rank > std::numeric_limits<int>::max()) return false;
  piece.rank = int(rank);
  piece.digest = array[4].get<std::string>();
  return whole_number(array[1], &piece.first) && whole_number(array[2], &piece.count) &&
         whole_number(array[3], &piece.offset);
}

void read_pieces(const json& array, const std::string& where, std::vector<StoredPiece>& pieces,
                 exchange::Faults& faults) {
  if (!array.is_array()) return faults.add(where + " must be an array of pieces");
  if (array.empty()) faults.add(where + " has no piece");
  for (const json& item : array) {
    if (!read_piece(item, pieces.emplace_back()))
      faults.add(cat(where, "[", pieces.size() - 1, "] must be [rank, first, count, offset, digest]"));
  }
}

void read_tensors(const json& object, Manifest& manifest, exchange::Faults& faults) {
  if (!object.is_object()) return faults.add("tensors must be an object");
  for (const auto& [tensor, item] : object.items()) {
    const std::string where = cat("tensors[", exchange::shown(tensor), "]");
    StoredTensor stored;
    Fields fields(item, where, faults);
    if (const json* const shape = fields.member("shape");
        shape != nullptr && !read_shape(*shape, stored.shape))
      faults.add(where + ".shape must be an array of whole numbers");
    for (const Kind kind : kKinds) {
      if (const json* const pieces = fields.member(name(kind), /*optional=*/true))
        read_pieces(*pieces, cat(where, ".", name(kind)), stored.of(kind), faults);
    }
    fields.no_others();
    manifest.tensors.emplace(tensor, std::move(stored));
  }
}

// Another format or version is told apart from damage.
void check_head(const json& object, std::string_view text, const std::string& where) {
  const json format = object.value("format", json());
  std::int64_t version = 0;
  if (format != kFormat)
    throw Error(Blame::model,
                cat(where, " is not the manifest of a checkpoint: its \"format\" is not \"", kFormat, "\""),
                "name a folder such as OUTPUT_DIR/checkpoints/step-00000100");
  if (!whole_number(object.value("version", json()), &version) || version < kOldestVersion ||
      version > kVersion)
    throw Error(Blame::model,
                cat(where, " has version ", exchange::shown(object.value("version", json()).dump()),
                    ", this program reads versions ", kOldestVersion, " to ", kVersion),
                "use the version of zerotrain that wrote the checkpoint");
  if (!starts_with(text, head(version)) || text.size() < head().size() + kDigestLength ||
      object.value("digest", json()) != own_digest(std::string(text)))
    throw Error(Blame::model, cat(where, " differs from what was written: its digest is wrong"), kDamaged);
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  const std::string state = to_json(manifest.state).dump(2, ' ', false, json::error_handler_t::replace);
  std::string text =
      cat(head(), std::string(kDigestLength, '0'), "\",\n  \"state\": ", indented(state),
          ",\n  \"files\": ", lines(manifest.files, [](const auto& f) { return line_of(f); }),
          ",\n  \"tensors\": ", lines(manifest.tensors, [](const auto& t) { return line_of(t); }), "\n}\n");
  return text.replace(head().size(), kDigestLength, own_digest(text));
}

Manifest manifest_from_text(std::string_view text, const std::string& where) {
  const json object = exchange::parse_json(text, where);
  if (!object.is_object())
    throw Error(Blame::model, cat(where, " must hold a JSON object, holds ", object.type_name()));
  check_head(object, text, where);
  Manifest manifest;
  exchange::Faults faults;
  // Faults name members by their own names: the title says in which file.
  Fields top(object, "manifest", faults);
  for (const char* const known : {"format", "version", "digest"}) top.member(known);
  if (const json* const state = top.member("state")) manifest.state = read_state(*state, "state", faults);
  if (const json* const files = top.member("files")) read_files(*files, manifest, faults);
  if (const json* const tensors = top.member("tensors")) read_tensors(*tensors, manifest, faults);
  top.no_others();
  if (faults.empty()) {
    for (std::string& fault : faults_of(manifest)) faults.add(std::move(fault));
  }
  faults.throw_if_any(cat(where, " is not sound"), kDamaged);
  return manifest;
}

}  // namespace zt::checkpoint
