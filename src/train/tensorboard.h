// A run's numbers as TensorBoard reads them: event files, OUTPUT_DIR/tensorboard/events.out.tfevents.*.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/metrics.h"

namespace zt::train {

// CRC-32C (Castagnoli; RFC 3720, B.4), and TFRecord's masked form of it: rotated right by 15 bits, plus 0xa282ead8.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// A TFRecord: length (8 bytes, little end first), its masked CRC, the bytes, their masked CRC.
// Source: tensorflow/core/lib/io/record_writer.h.
std::string tf_record(std::string_view bytes);

// A number under the name that people look for: "train/loss".
struct Scalar {
  std::string tag;
  double value = 0;  // event files hold 32-bit floats
};
// What a step and an evaluation are called; docs/formats/run_folder.md lists the tags.
std::vector<Scalar> scalars_of(const StepMetrics& metrics);
std::vector<Scalar> evaluation_scalars(double loss, std::int64_t tokens);

// Messages tensorflow.Event (tensorflow/core/util/event.proto), of which a file begins with a version. A SessionLog of
// status START tells readers to drop what they have read of steps from `step` on: these are measured again.
std::string version_event(double wall_seconds);
std::string restart_event(double wall_seconds, std::int64_t step);
std::string scalars_event(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars);
// Markdown, shown by the text plugin.
std::string text_event(double wall_seconds, std::int64_t step, const std::string& tag,
                       const std::string& markdown);

// One event file of one start of a run. Each event is written at once and whole, so a killed run keeps all it wrote.
// A folder or disk that takes no more is warned of once and ends nothing: metrics.jsonl has the same numbers.
class TensorBoard {
 public:
  // A new file in `folder`, which sorts behind the files of earlier starts. What is after `last_step` will be measured,
  // again where it has been. -1: everything.
  TensorBoard(const std::filesystem::path& folder, std::int64_t last_step);
  ~TensorBoard();
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;

  void step(const StepMetrics& metrics);
  void evaluation(std::int64_t step, double loss, std::int64_t tokens);
  // At `last_step`.
  void text(const std::string& tag, const std::string& markdown);
  // Steps after `last_step` will be measured again: readers drop what they have of them.
  void go_back_to(std::int64_t last_step);

 private:
  void open();
  void write(const std::string& event);
  void give_up(const std::string& why);

  std::filesystem::path folder_, path_;
  std::int64_t last_step_;
  int file_ = -1;
  std::int64_t written_ = 0;  // bytes of whole records
};

}  // namespace zt::train
