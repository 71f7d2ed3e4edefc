// Any bytes as the manifest of a checkpoint (first byte 0), as what follows its head, with a right digest (1), as the
// state of a run (2), as a rank's file that a sound manifest describes (3).
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state.h"
#include "exchange/json.h"
#include "hostile.h"

using namespace zt;
using namespace zt::checkpoint;

namespace {

constexpr fuzz::Bound kBound{1 << 20, 1024};
constexpr const char* kHead =
    "{\n  \"format\": \"zerotrain checkpoint\",\n  \"version\": 1,\n  \"digest\": \"";

// Hostile files have right digests: whoever makes one can work them out.
std::string with_digest(const std::string& rest) {
  std::string text = cat(kHead, std::string(32, '0'), "\"", rest);
  return text.replace(std::string_view(kHead).size(), 32, digest_of(text));
}

void read_manifest(const std::string& text) {
  fuzz::survives(text.size(), kBound, Blame::model, [&] {
    const Manifest manifest = manifest_from_text(text, "manifest.json");
    FUZZ_CHECK(faults_of(manifest).empty());
    FUZZ_CHECK(manifest_from_text(to_text(manifest), "again") == manifest);
    for (const auto& [name, file] : manifest.files) {
      FUZZ_CHECK(name.find("..") == std::string::npos || starts_with(name, kCompanions));
      FUZZ_CHECK(name.front() != '/' && !starts_with(name, "hf/."));
      FUZZ_CHECK(std::ranges::count(name, '/') <= 1);
    }
  });
}

void read_run_state(const std::string& text) {
  fuzz::survives(text.size(), kBound, Blame::model, [&] {
    const RunState state = state_from_json(exchange::parse_json(text, "state"), "state");
    FUZZ_CHECK(state_from_json(nlohmann::json::parse(to_json(state).dump()), "again") == state);
  });
}

// A checkpoint of one tensor [4] at byte 16 of the only rank's file, which holds `bytes`.
void read_rank_file(const std::string& bytes) {
  const fuzz::Folder& folder = fuzz::scratch();
  const std::string rank_file = rank_file_name(0, 1), model_file = "a model file";
  Manifest manifest;
  manifest.state.run_id = "r";
  manifest.state.dtype = "float32";
  manifest.files[kModelFile] = {std::int64_t(model_file.size()), digest_of(model_file)};
  manifest.files[rank_file] = {std::max<std::int64_t>(32, std::int64_t(bytes.size())), digest_of(bytes)};
  const std::string values = bytes.size() < 32 ? std::string() : bytes.substr(16, 16);
  StoredTensor& tensor = manifest.tensors["w"];
  tensor.shape = {4};
  tensor.of(Kind::value).push_back({0, 0, 4, 16, digest_of(values)});
  folder.write(kManifestFile, to_text(manifest));
  folder.write(kModelFile, model_file);
  folder.write(rank_file, bytes);
  float read[4] = {};
  const bool good = fuzz::survives(bytes.size(), {4 << 20, 64}, Blame::model, [&] {
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    FUZZ_CHECK(checkpoint.verify().empty());
    checkpoint.read("w", Kind::value, 0, read);
    checkpoint.read("w", Kind::value, 3, std::span(read).last(1));
  });
  FUZZ_CHECK(good == (bytes.size() >= 32));
  if (good) FUZZ_CHECK(std::string_view(reinterpret_cast<const char*>(read), 16) == values);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, bytes] = fuzz::input_of(data, size);
  switch (choice % 4) {
    case 0: read_manifest(bytes); break;
    case 1: read_manifest(with_digest(bytes)); break;
    case 2: read_run_state(bytes); break;
    case 3: read_rank_file(bytes); break;
  }
  return 0;
}
