// What makes a manifest unsound.
#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "checkpoint/manifest.h"
#include "exchange/words.h"

namespace zt::checkpoint {
namespace {

constexpr std::size_t kMaxName = 255, kMaxDimensions = 8;
constexpr std::int64_t kTooMany = std::int64_t{1} << 60;

bool is_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string range(std::int64_t first, std::int64_t count) {
  return cat("[", first, ", ", first + count, ")");
}

class Check {
 public:
  explicit Check(const Manifest& manifest) : m_(manifest) {}

  std::vector<std::string> run() {
    files();
    for (const auto& [name, stored] : m_.tensors) tensor(name, stored);
    overlaps_in_files();
    return std::move(faults_);
  }

 private:
  // A piece's bytes in a rank's file.
  struct Region {
    int rank;
    std::int64_t begin, end;
    const std::string* tensor;
    Kind kind;
  };

  template <typename... Parts>
  void fault(const Parts&... parts) {
    faults_.push_back(cat(parts...));
  }

  void files() {
    if (!m_.files.contains(kModelFile)) fault("files lack ", kModelFile);
    int rank_files = 0;
    for (int rank = 0; rank < m_.state.ranks; ++rank) {
      if (m_.files.contains(rank_file_name(rank, m_.state.ranks))) {
        ++rank_files;
      } else {
        fault("files lack ", rank_file_name(rank, m_.state.ranks));
        // A wrong number of ranks must not make a million faults.
        if (rank - rank_files > 100) break;
      }
    }
    for (const auto& [name, file] : m_.files) {
      if (file.bytes < 0 || file.bytes > kTooMany)
        fault("file ", exchange::shown(name), " has ", file.bytes, " bytes");
      if (!is_digest(file.digest))
        fault("file ", exchange::shown(name), " has no digest of 32 hexadecimal digits");
      if (!known_file(name))
        fault("files name ", exchange::shown(name), ", which is no file of a checkpoint");
    }
  }

  bool known_file(const std::string& name) const {
    if (name == kModelFile) return true;
    if (starts_with(name, kCompanions))
      return plain_name(std::string_view(name).substr(std::string_view(kCompanions).size()));
    std::int64_t rank = 0;
    return starts_with(name, "rank-") && name.size() > 10 && parse_int(name.substr(5, 5), &rank) &&
           rank >= 0 && rank < m_.state.ranks && name == rank_file_name(int(rank), m_.state.ranks);
  }

  void tensor(const std::string& tensor, const StoredTensor& stored) {
    const std::string shown = exchange::shown(tensor);
    if (!plain_name(tensor)) return fault("tensor ", shown, " has a name that no tensor has");
    const auto elements = checked_elements(stored.shape);
    if (!elements) return fault("tensor ", shown, " has a shape that no tensor has");
    if (stored.of(Kind::value).empty()) fault("tensor ", shown, " has no value");
    if (stored.of(Kind::first_moment).empty() != stored.of(Kind::second_moment).empty())
      fault("tensor ", shown, " has one of the two moments");
    for (const Kind kind : kKinds) {
      if (!stored.of(kind).empty()) kind_of_tensor(tensor, kind, stored.of(kind), *elements);
    }
  }

  void kind_of_tensor(const std::string& tensor, Kind kind, const std::vector<StoredPiece>& pieces,
                      std::int64_t elements) {
    std::int64_t next = 0;
    for (const StoredPiece& p : pieces) {
      if (!inside(p, elements)) {
        return fault(name(kind), " of ", exchange::shown(tensor), ": the piece [", p.rank, ", ", p.first,
                     ", ", p.count, ", ", p.offset, "] does not lie in the tensor's ", elements,
                     " elements and in the file of a rank");
      }
      if (!is_digest(p.digest))
        fault(name(kind), " of ", exchange::shown(tensor),
              ": a piece has no digest of 32 hexadecimal digits");
      if (p.first > next)
        fault(name(kind), " of ", exchange::shown(tensor), " lacks elements ", range(next, p.first - next));
      if (p.first < next)
        fault(name(kind), " of ", exchange::shown(tensor), ": pieces overlap or are not in order at element ",
              p.first);
      next = std::max(next, p.first + p.count);
      regions_.push_back({p.rank, p.offset, p.offset + p.count * 4, &tensor, kind});
    }
    if (next < elements)
      fault(name(kind), " of ", exchange::shown(tensor), " lacks elements ", range(next, elements - next));
  }

  bool inside(const StoredPiece& p, std::int64_t elements) const {
    if (p.count < 1 || p.count > elements || p.first < 0 || p.first > elements - p.count) return false;
    if (p.rank < 0 || p.rank >= m_.state.ranks || p.offset < 0) return false;
    const auto file = m_.files.find(rank_file_name(p.rank, m_.state.ranks));
    return file != m_.files.end() && p.offset <= file->second.bytes &&
           p.count <= (file->second.bytes - p.offset) / 4;
  }

  void overlaps_in_files() {
    std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) {
      return std::tie(a.rank, a.begin, a.end) < std::tie(b.rank, b.begin, b.end);
    });
    for (std::size_t i = 1; i < regions_.size(); ++i) {
      const Region &a = regions_[i - 1], &b = regions_[i];
      if (a.rank == b.rank && b.begin < a.end)
        fault(rank_file_name(a.rank, m_.state.ranks), ": ", dataset_name(*a.tensor, a.kind), " and ",
              dataset_name(*b.tensor, b.kind), " overlap at byte ", b.begin);
    }
  }

  const Manifest& m_;
  std::vector<Region> regions_;
  std::vector<std::string> faults_;
};

}  // namespace

std::string rank_file_name(int rank, int ranks) { return fmt::format("rank-{:05}-of-{:05}.h5", rank, ranks); }

std::string dataset_name(const std::string& tensor, Kind kind) { return cat("/", tensor, "/", name(kind)); }

bool plain_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7F && std::string_view("/%\"\\").find(c) == std::string_view::npos;
  });
}

std::optional<std::int64_t> checked_elements(const Shape& shape) {
  if (shape.empty() || shape.size() > kMaxDimensions) return {};
  std::int64_t elements = 1;
  for (const std::int64_t n : shape) {
    if (n < 1 || n >= kTooMany / elements) return {};
    elements *= n;
  }
  return elements;
}

std::vector<std::string> faults_of(const Manifest& manifest) { return Check(manifest).run(); }

}  // namespace zt::checkpoint
