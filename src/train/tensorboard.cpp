#include "train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"

namespace zt::train {
namespace fs = std::filesystem;
namespace {

std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // its bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kCastagnoli : 0);
    table[byte] = rest;
  }
  return table;
}

template <typename Word>
std::string little_end_first(Word word) {
  std::string out;
  for (std::size_t i = 0; i < sizeof word; ++i) out += static_cast<char>(word >> (8 * i) & 0xff);
  return out;
}

// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding): a field is its number and wire type,
// then its value.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
std::string number_field(int field, std::int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int field, double value) {
  return key(field, Wire::fixed64) + little_end_first(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int field, double value) {
  return key(field, Wire::fixed32) +
         little_end_first(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, Wire::bytes) + varint(bytes.size()) + std::string(bytes);
}

// Field numbers of event.proto, summary.proto and tensor.proto.
std::string event(double wall_seconds, std::int64_t step, int field, std::string_view content) {
  return double_field(1, wall_seconds) + number_field(2, step) + bytes_field(field, content);
}
constexpr int kFileVersion = 3, kSummary = 5, kSessionLog = 7;

// One table: what is told of a step, and under which name.
struct Tag {
  const char* name;
  double (*of)(const StepMetrics&);
};
constexpr Tag kStepTags[] = {
    {"train/loss", [](const StepMetrics& m) { return m.loss; }},
    {"train/epoch", [](const StepMetrics& m) { return m.epoch; }},
    {"train/learning_rate", [](const StepMetrics& m) { return m.learning_rate; }},
    {"train/grad_norm", [](const StepMetrics& m) { return m.grad_norm; }},
    {"train/loss_scale", [](const StepMetrics& m) { return m.loss_scale; }},
    {"train/skipped", [](const StepMetrics& m) { return m.skipped ? 1. : 0.; }},
    {"train/step_seconds", [](const StepMetrics& m) { return m.step_seconds; }},
    {"train/tokens_per_second", [](const StepMetrics& m) { return m.tokens_per_second; }},
    {"train/mfu", [](const StepMetrics& m) { return m.mfu; }},
    {"train/cost_imbalance", [](const StepMetrics& m) { return m.cost_imbalance; }},
    {"memory/peak_bytes", [](const StepMetrics& m) { return double(m.peak_bytes); }},
    {"memory/planned_bytes", [](const StepMetrics& m) { return double(m.planned_bytes); }},
    {"memory/process_peak_bytes", [](const StepMetrics& m) { return double(m.process_peak_bytes); }},
    {"memory/planned_process_bytes", [](const StepMetrics& m) { return double(m.planned_process_bytes); }},
    {"comm/exposed_seconds", [](const StepMetrics& m) { return m.exposed_comm_seconds; }},
    {"comm/all_gather_bytes", [](const StepMetrics& m) { return double(m.traffic.all_gather); }},
    {"comm/reduce_scatter_bytes", [](const StepMetrics& m) { return double(m.traffic.reduce_scatter); }},
    {"comm/all_reduce_bytes", [](const StepMetrics& m) { return double(m.traffic.all_reduce); }},
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Readers take files in the order of their names, so a start within the second of an earlier one, or after the clock
// was set back, is numbered behind it.
std::int64_t number_of_next(const fs::path& folder) {
  auto number = static_cast<std::int64_t>(now());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    std::int64_t other = 0;
    if (starts_with(name, kPrefix) && parse_int(name.substr(kPrefix.size(), 10), &other) &&
        other < 9999999999)
      number = std::max(number, other + 1);
  }
  return number;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string tf_record(std::string_view bytes) {
  const std::string length = little_end_first(static_cast<std::uint64_t>(bytes.size()));
  return length + little_end_first(masked_crc32c(length)) + std::string(bytes) +
         little_end_first(masked_crc32c(bytes));
}

std::vector<Scalar> scalars_of(const StepMetrics& metrics) {
  std::vector<Scalar> out;
  for (const Tag& tag : kStepTags) out.push_back({tag.name, tag.of(metrics)});
  return out;
}

std::vector<Scalar> evaluation_scalars(double loss, std::int64_t tokens) {
  return {{"eval/loss", loss}, {"eval/tokens", static_cast<double>(tokens)}};
}

// "2" is what makes readers heed SessionLog.
std::string version_event(double wall_seconds) {
  return event(wall_seconds, 0, kFileVersion, "brain.Event:2");
}

std::string restart_event(double wall_seconds, std::int64_t step) {
  constexpr int kStart = 1;
  return event(wall_seconds, step, kSessionLog, number_field(1, kStart));
}

std::string scalars_event(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, scalar.value));
  return event(wall_seconds, step, kSummary, summary);
}

std::string text_event(double wall_seconds, std::int64_t step, const std::string& tag,
                       const std::string& markdown) {
  constexpr int kString = 7, kTensorClass = 2;                   // of DataType and of DataClass
  const std::string shape = bytes_field(2, number_field(1, 1));  // one dimension of size 1
  const std::string tensor = number_field(1, kString) + bytes_field(2, shape) + bytes_field(8, markdown);
  const std::string metadata = bytes_field(1, bytes_field(1, "text")) + number_field(4, kTensorClass);
  return event(wall_seconds, step, kSummary,
               bytes_field(1, bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata)));
}

TensorBoard::TensorBoard(const fs::path& folder, std::int64_t last_step)
    : folder_(folder), last_step_(last_step) {
  open();
  write(version_event(now()));
  write(restart_event(now(), last_step + 1));
}

TensorBoard::~TensorBoard() {
  if (file_ >= 0) ::close(file_);
}

void TensorBoard::open() {
  try {
    fs::create_directories(folder_);
    path_ =
        folder_ / fmt::format("{}{:010}.{}.{}", kPrefix, number_of_next(folder_), host_name(), ::getpid());
  } catch (const fs::filesystem_error& e) {
    return give_up(e.code().message());
  }
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) give_up(std::strerror(errno));
}

void TensorBoard::write(const std::string& event) {
  if (file_ < 0) return;
  const std::string record = tf_record(event);
  if (write_all(file_, record)) {
    written_ += static_cast<std::int64_t>(record.size());
    return;
  }
  const std::string why = std::strerror(errno);
  // Readers stop at half a record.
  if (::ftruncate(file_, written_) != 0) log::warn(cat(path_.string(), " ends in half a record"));
  give_up(why);
}

void TensorBoard::give_up(const std::string& why) {
  log::warn(cat("no more TensorBoard events: cannot write ", (path_.empty() ? folder_ : path_).string(), ": ",
                why, "; the run goes on, and metrics.jsonl has the same numbers"));
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void TensorBoard::step(const StepMetrics& metrics) {
  write(scalars_event(now(), metrics.step, scalars_of(metrics)));
}

void TensorBoard::evaluation(std::int64_t step, double loss, std::int64_t tokens) {
  write(scalars_event(now(), step, evaluation_scalars(loss, tokens)));
}

void TensorBoard::text(const std::string& tag, const std::string& markdown) {
  write(text_event(now(), std::max<std::int64_t>(0, last_step_), tag, markdown));
}

void TensorBoard::go_back_to(std::int64_t last_step) { write(restart_event(now(), last_step + 1)); }

}  // namespace zt::train
