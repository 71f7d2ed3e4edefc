#include "exchange/safetensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "exchange/words.h"
#include "tensor/convert.h"

namespace zt::exchange {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeader = 100'000'000;
// Real files hold some thousand tensors with names of some fifty bytes and almost no metadata; these bounds
// keep a header of 100 MB from becoming a gigabyte in memory.
constexpr std::size_t kMaxTensors = 65'536, kMaxName = 256, kMaxRank = 8, kMaxMetadata = 4 << 20;
constexpr std::ptrdiff_t kMaxToken = 4 << 20;
constexpr auto kHint = "the file is damaged or was not written by a safetensors library; fetch it again";

struct DtypeRow {
  std::string_view name;
  int bits;
  std::optional<Dtype> weight;
};
constexpr DtypeRow kDtypes[] = {
    {"F32", 32, Dtype::f32}, {"BF16", 16, Dtype::bf16}, {"F16", 16, Dtype::f16}, {"F64", 64, {}},
    {"C64", 64, {}},         {"I64", 64, {}},           {"U64", 64, {}},         {"I32", 32, {}},
    {"U32", 32, {}},         {"I16", 16, {}},           {"U16", 16, {}},         {"I8", 8, {}},
    {"U8", 8, {}},           {"BOOL", 8, {}},           {"F8_E4M3", 8, {}},      {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},      {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},      {"F4", 4, {}},
};

const DtypeRow* find_dtype(std::string_view name) {
  for (const DtypeRow& row : kDtypes)
    if (row.name == name) return &row;
  return nullptr;
}

// Size in bytes, or nothing when it overflows 63 bits or is a fraction of a byte.
std::optional<std::int64_t> bytes_of(const Shape& shape, int bits) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t size = bits;
  for (const std::int64_t n : shape)
    if (__builtin_mul_overflow(size, n, &size)) return {};
  if (size % 8 != 0) return {};
  return size / 8;
}

// The header's characters, given one by one to the parser. Bounds the length of a token, because the parser
// keeps the current one in memory, and gives pages back once they are read.
class HeaderIterator {
 public:
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  HeaderIterator(const char* at, const std::string& file) : at_(at), token_(at), file_(&file) {}
  reference operator*() const { return *at_; }
  bool operator!=(const HeaderIterator& other) const { return at_ != other.at_; }
  bool operator==(const HeaderIterator& other) const { return at_ == other.at_; }
  HeaderIterator operator++(int) {
    HeaderIterator old = *this;
    ++*this;
    return old;
  }
  HeaderIterator& operator++() {
    note(*at_);
    if (at_ - token_ > kMaxToken)
      throw Error(Blame::model,
                  cat("the header of ", *file_, " has a string of more than ", kMaxToken, " bytes"), kHint);
    ++at_;
    if (reinterpret_cast<std::uintptr_t>(at_) % kWindow == 0) forget();
    return *this;
  }

 private:
  static constexpr std::size_t kWindow = 1 << 20;
  void note(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
      if (!in_string_) token_ = at_;
    } else if (std::string_view("\"{}[]:,").find(c) != std::string_view::npos) {
      in_string_ = c == '"';
      token_ = at_;
    }
  }
  // Read pages count as our memory; they can be mapped again. A failure changes nothing but that.
  void forget() const {
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(at_);
    const std::uintptr_t begin = std::max(end - kWindow, first_page_);
    if (end > begin) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  const char* at_;
  const char* token_;
  const std::string* file_;
  std::uintptr_t first_page_ = reinterpret_cast<std::uintptr_t>(at_) / 4096 * 4096;
  bool in_string_ = false, escaped_ = false;
};

// Takes the header apart while it is parsed, so that nothing but the tensors is kept. A fault of one tensor
// is noted and reading goes on; a header of another structure stops at once.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, std::vector<StoredTensor>* tensors,
               std::map<std::string, std::string>* metadata, Faults* faults)
      : file_(file), tensors_(*tensors), metadata_(*metadata), faults_(*faults) {}

  // The parser's events; it asks for exactly these names.
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;
  bool null() { wrong("null"); }
  bool boolean(bool) { wrong("true or false"); }
  bool binary(binary_t&) { wrong("binary data"); }
  bool number_integer(number_integer_t value) { return entry(cat(value), -1); }
  bool number_unsigned(number_unsigned_t value) {
    const bool fits = value <= std::uint64_t(std::numeric_limits<std::int64_t>::max());
    return entry(cat(value), fits ? std::int64_t(value) : -1);
  }
  bool number_float(number_float_t, const string_t& text) { return entry(text, -1); }
  bool string(string_t& text);
  bool key(string_t& text);
  bool start_object(std::size_t);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array() {
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) {
    throw Error(Blame::model, cat("the header of ", file_, " is not JSON: ", shown_json_error(e.what())),
                kHint);
  }

 private:
  enum class Level { outside, top, tensor, metadata };
  [[noreturn]] void stop(const std::string& what) const {
    throw Error(Blame::model, cat("the header of ", file_, ": ", what), kHint);
  }
  [[noreturn]] void wrong(const std::string& found) const {
    std::string place = level_ == Level::outside ? "the whole" : key_.empty() ? "an entry" : shown(key_);
    if (level_ == Level::tensor) place = cat("tensor ", shown(tensor_.name), ", ", place);
    stop(cat(place, " must not be ", found));
  }
  void fault(const std::string& what) {
    faults_.add(cat("tensor ", shown(tensor_.name), ": ", what));
    broken_ = true;
  }
  bool entry(const std::string& text, std::int64_t value);
  void finish_tensor();

  const std::string& file_;
  std::vector<StoredTensor>& tensors_;
  std::map<std::string, std::string>& metadata_;
  Faults& faults_;
  Level level_ = Level::outside;
  std::string key_;       // the last key of the current object
  bool expects_ = false;  // a key stands, its value is yet to come
  StoredTensor tensor_;
  Shape offsets_;
  std::vector<std::string> seen_;  // keys of the current tensor
  std::string dtype_;
  std::vector<std::int64_t>* list_ = nullptr;  // the array being filled
  bool broken_ = false, metadata_seen_ = false;
  std::size_t metadata_bytes_ = 0;
};

bool HeaderReader::string(string_t& text) {
  if (level_ == Level::metadata) {
    metadata_bytes_ += text.size() + key_.size() + 128;
    if (metadata_bytes_ > kMaxMetadata) stop(cat("__metadata__ takes more than ", kMaxMetadata, " bytes"));
    if (!metadata_.emplace(key_, text).second)
      faults_.add(cat("__metadata__ has the key ", shown(key_), " twice"));
    return true;
  }
  if (level_ != Level::tensor || list_ != nullptr || key_ != "dtype") wrong("a string");
  dtype_ = text.substr(0, kMaxName);
  return true;
}

bool HeaderReader::key(string_t& text) {
  if (level_ == Level::tensor) {
    if (text != "dtype" && text != "shape" && text != "data_offsets")
      stop(cat("tensor ", shown(tensor_.name), " has the unknown key ", shown(text)));
    if (std::find(seen_.begin(), seen_.end(), text) != seen_.end())
      stop(cat("tensor ", shown(tensor_.name), " has the key ", shown(text), " twice"));
    seen_.push_back(text);
  }
  key_ = text;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (list_ != nullptr || level_ == Level::tensor || level_ == Level::metadata) wrong("an object");
  if (level_ == Level::outside) {
    level_ = Level::top;
  } else if (key_ == "__metadata__") {
    if (std::exchange(metadata_seen_, true)) faults_.add("__metadata__ is there twice");
    level_ = Level::metadata;
  } else {
    if (key_.size() > kMaxName)
      stop(cat("tensor name ", shown(key_), " has ", key_.size(), " bytes, at most ", kMaxName));
    if (tensors_.size() == kMaxTensors) stop(cat("more than ", kMaxTensors, " tensors"));
    tensor_ = {};
    tensor_.name = key_;
    key_.clear();
    seen_.clear();
    offsets_.clear();
    broken_ = false;
    level_ = Level::tensor;
  }
  return true;
}

bool HeaderReader::end_object() {
  if (level_ == Level::tensor) finish_tensor();
  level_ = level_ == Level::top ? Level::outside : Level::top;
  key_.clear();
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (level_ != Level::tensor || list_ != nullptr || (key_ != "shape" && key_ != "data_offsets"))
    wrong("an array");
  list_ = key_ == "shape" ? &tensor_.shape : &offsets_;
  return true;
}

bool HeaderReader::entry(const std::string& text, std::int64_t value) {
  if (list_ == nullptr) wrong("a number");
  if (list_->size() == kMaxRank)
    stop(cat("tensor ", shown(tensor_.name), " has more than ", kMaxRank, " entries in ", key_));
  if (value < 0)
    fault(cat(key_, " has the entry ", text.substr(0, 40), ", must be a whole number from 0 to 2^63 - 1"));
  list_->push_back(value);
  return true;
}

void HeaderReader::finish_tensor() {
  if (seen_.size() != 3)
    stop(cat("tensor ", shown(tensor_.name), " lacks one of dtype, shape and data_offsets"));
  if (offsets_.size() != 2) return fault(cat("data_offsets must have 2 entries, has ", offsets_.size()));
  tensor_.begin = offsets_[0];
  tensor_.end = offsets_[1];
  const DtypeRow* const row = find_dtype(dtype_);
  if (row == nullptr) return fault(cat("unknown dtype ", shown(dtype_)));
  tensor_.dtype_name = row->name;
  tensor_.dtype = row->weight;
  if (broken_) return;
  if (tensor_.begin > tensor_.end)
    return fault(cat("data_offsets begin at ", tensor_.begin, " and end before, at ", tensor_.end));
  const std::optional<std::int64_t> size = bytes_of(tensor_.shape, row->bits);
  if (!size)
    return fault(
        cat("shape ", text_of(tensor_.shape), " of ", row->name, " has no size in bytes below 2^60"));
  if (*size != tensor_.end - tensor_.begin)
    return fault(cat("shape ", text_of(tensor_.shape), " of ", row->name, " takes ", *size,
                     " bytes, data_offsets [", tensor_.begin, ", ", tensor_.end, "] hold ",
                     tensor_.end - tensor_.begin));
  tensors_.push_back(std::move(tensor_));
}

// Indices of the tensors in order of `less`.
template <typename Less>
std::vector<std::size_t> order(std::size_t count, Less less) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::sort(out.begin(), out.end(), less);
  return out;
}

void check_unique(const std::vector<StoredTensor>& tensors, const std::vector<std::size_t>& by_name,
                  Faults* faults) {
  for (std::size_t i = 1; i < by_name.size(); ++i)
    if (tensors[by_name[i]].name == tensors[by_name[i - 1]].name)
      faults->add(cat("tensor ", shown(tensors[by_name[i]].name), " is there twice"));
}

// `tensors` in order of their bytes.
void check_tiling(const std::vector<StoredTensor>& tensors, std::int64_t data_bytes, Faults* faults) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& t = tensors[i];
    if (t.begin > at)
      faults->add(
          cat("bytes ", at, " to ", t.begin, " before tensor ", shown(t.name), " belong to no tensor"));
    if (t.begin < at)
      faults->add(cat("tensor ", shown(t.name), " begins at byte ", t.begin, ", before the end of tensor ",
                      shown(tensors[i - 1].name), " at ", at));
    at = std::max(at, t.end);
  }
  if (at > data_bytes)
    faults->add(
        cat("the tensors take ", at, " bytes, the file holds only ", data_bytes, " after its header"));
  if (at < data_bytes)
    faults->add(cat("the tensors take ", at, " bytes, the file holds ", data_bytes - at, " more"));
}

std::uint64_t header_length(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < 8)
    throw Error(Blame::model, cat(path, " has ", file.size(), " bytes, too few for a safetensors file"),
                kHint);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(file[std::size_t(i)]);
  if (length > kMaxHeader)
    throw Error(Blame::model,
                cat(path, " claims a header of ", length, " bytes, at most ", kMaxHeader, " are allowed"),
                kHint);
  if (length > file.size() - 8)
    throw Error(Blame::model,
                cat(path, " claims a header of ", length, " bytes, but has only ", file.size() - 8,
                    " after the length"),
                kHint);
  return length;
}

}  // namespace

std::int64_t elements_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return count;
}

std::string text_of(const Shape& shape) {
  std::vector<std::string> parts;
  for (const std::int64_t n : shape) parts.push_back(cat(n));
  return cat("[", join(parts, ", "), "]");
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path), file_(path, Blame::model) {
  const std::string name = path.string();
  const std::uint64_t length = header_length(file_.bytes(), name);
  const char* const header = file_.text().data() + 8;
  data_ = file_.bytes().subspan(8 + length);
  Faults faults;
  HeaderReader reader(name, &tensors_, &metadata_, &faults);
  if (length > 0 && *header != '{')
    throw Error(Blame::model, cat("the header of ", name, " is not JSON: it must begin with '{'"), kHint);
  nlohmann::json::sax_parse(HeaderIterator(header, name), HeaderIterator(header + length, name), &reader);

  const auto& t = tensors_;
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  by_name_ = order(t.size(), [&](std::size_t a, std::size_t b) { return t[a].name < t[b].name; });
  check_unique(t, by_name_, &faults);
  // Behind a tensor with faults the tiling would only repeat them.
  if (faults.empty()) check_tiling(t, std::int64_t(data_.size()), &faults);
  faults.throw_if_any(cat(name, " has a faulty header"), kHint);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](std::size_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const StoredTensor& tensor) const {
  return data_.subspan(std::size_t(tensor.begin), std::size_t(tensor.end - tensor.begin));
}

void SafetensorsFile::read(const StoredTensor& tensor, std::int64_t first, std::int64_t count, void* dst,
                           Dtype dst_dtype) const {
  if (!tensor.dtype)
    throw Error(Blame::model,
                cat(path_.string(), ": tensor ", shown(tensor.name), " is stored as ", tensor.dtype_name),
                "weights are read from F32, BF16 and F16; convert the model first");
  const std::int64_t all = elements_of(tensor.shape);
  if (first < 0 || count < 0 || count > all || first > all - count)
    throw Error(Blame::bug, cat("elements ", first, " to ", first, " + ", count, " of tensor ",
                                shown(tensor.name), ", which has ", all));
  convert(bytes(tensor).data() + first * size_of(*tensor.dtype), *tensor.dtype, dst, dst_dtype, count);
}

}  // namespace zt::exchange
