// Round trips, strictness, damage, lists.
#include "checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <fstream>
#include <random>

#include "base/text.h"
#include "pretend.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::checkpoint;
using namespace zt::test;
namespace fs = std::filesystem;
using comm::Communicator;

namespace {

std::vector<float> read(const Checkpoint& checkpoint, const std::string& tensor, Kind kind,
                        std::int64_t first, std::int64_t count) {
  std::vector<float> out(std::size_t(count), -1.f);
  checkpoint.read(tensor, kind, first, out);
  return out;
}

std::vector<float> expected(std::size_t tensor, Kind kind, std::int64_t first, std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t e = first; e < first + count; ++e) out.push_back(number(tensor, kind, e));
  return out;
}

void check_whole(const Checkpoint& checkpoint) {
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const Tensor t = tensors()[i];
    for (const Kind kind : kinds_of(t)) {
      CAPTURE(t.name);
      CAPTURE(name(kind));
      CHECK(read(checkpoint, t.name, kind, 0, t.elements()) == expected(i, kind, 0, t.elements()));
    }
  }
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes[at] = char(bytes[at] ^ 0x10);
  return bytes;
}

void put(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

std::string all(const std::vector<std::string>& faults) { return join(faults, "; "); }

// The error that opening or verifying gives, or "".
std::string trouble(const fs::path& folder) {
  try {
    return all(Checkpoint::open(folder).verify());
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    return e.what();
  }
}

}  // namespace

TEST_CASE("checkpoint: files that are links are refused by name; the folder itself may be one") {
  const ScratchDir scratch;
  const fs::path good = save(scratch.path() / "good", 4, 2);
  fs::create_directory_symlink(good, scratch.path() / "latest");
  CHECK(Checkpoint::open(scratch.path() / "latest").verify().empty());
  for (const char* const file :
       {"rank-00001-of-00002.h5", "model.h5", "hf", "hf/config.json", "manifest.json"}) {
    CAPTURE(file);
    const fs::path folder = scratch.path() / "bad";
    fs::remove_all(folder);
    fs::copy(good, folder, fs::copy_options::recursive);
    fs::remove_all(folder / file);
    fs::create_symlink(good / file, folder / file);
    const Error e = test::error_of([&] { Checkpoint::open(folder); });
    CHECK(e.blame() == Blame::model);
    const std::string named = file == std::string("hf") ? "hf/config.json" : file;
    CHECK(says(e.problem(), named + " is a link"));
  }
}

TEST_CASE("checkpoint: what any number of ranks saves is read back whole, with its state and companions") {
  for (const int ranks : {1, 2, 3, 8}) {
    CAPTURE(ranks);
    const ScratchDir scratch;
    const Checkpoint checkpoint = Checkpoint::open(save(scratch.path() / "checkpoints", 100, ranks));
    CHECK(checkpoint.state() == state_of(100, ranks));
    CHECK(checkpoint.companions() == test::companion_files());
    check_whole(checkpoint);
    checkpoint.check_against(needs());
    CHECK(all(checkpoint.verify()) == "");
  }
}

TEST_CASE("checkpoint: padding is nowhere in it") {
  const ScratchDir scratch;
  std::int64_t elements = 0;
  for (const Tensor& t : tensors()) elements += t.elements() * std::int64_t(kinds_of(t).size());
  const Checkpoint checkpoint = Checkpoint::open(save(scratch.path(), 1, 8));
  std::int64_t stored = 0;
  for (const auto& [tensor, parts] : checkpoint.manifest().tensors) {
    for (const auto& pieces : parts.pieces) {
      for (const StoredPiece& piece : pieces) stored += piece.count;
    }
  }
  CHECK(stored == elements);
}

TEST_CASE("checkpoint: saved by 8 ranks, any range of any tensor is read exactly") {
  const ScratchDir scratch;
  const Checkpoint checkpoint = Checkpoint::open(save(scratch.path(), 100, 8));
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const Tensor t = tensors()[i];
    const Kind kind = t.frozen ? Kind::value : Kind::second_moment;
    for (std::int64_t first = 0; first < t.elements(); ++first) {
      for (std::int64_t count = 0; first + count <= t.elements(); count += 1 + first % 3) {
        if (read(checkpoint, t.name, kind, first, count) != expected(i, kind, first, count))
          FAIL(t.name, " from ", first, ", ", count, " elements");
      }
    }
  }
}

TEST_CASE("checkpoint: every piece lies where the manifest says, with the digest that XXH3 gives") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  int pieces = 0;
  for (const auto& [tensor, stored] : checkpoint.manifest().tensors) {
    for (const Kind kind : kKinds) {
      for (const StoredPiece& p : stored.of(kind)) {
        const std::string file = read_file(folder / rank_file_name(p.rank, 3));
        const std::string bytes = file.substr(std::size_t(p.offset), std::size_t(p.count) * 4);
        const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
        CHECK(p.digest == fmt::format("{:016x}{:016x}", hash.high64, hash.low64));
        const float* const values = reinterpret_cast<const float*>(bytes.data());
        for (std::size_t i = 0; i < tensors().size(); ++i) {
          if (tensors()[i].name == tensor)
            CHECK(values[p.count - 1] == number(i, kind, p.first + p.count - 1));
        }
        ++pieces;
      }
    }
  }
  CHECK(pieces > 15);
}

TEST_CASE("checkpoint: what doesn't fit is refused both ways, with all differences at once") {
  const ScratchDir scratch;
  const Checkpoint checkpoint = Checkpoint::open(save(scratch.path(), 100, 2));
  std::vector<Need> wanted = needs();
  wanted[0].shape = {37, 12};
  wanted[1].tensor = "model.layers.1.self_attn.q_proj.weight";
  wanted[3].kinds = {Kind::value};                                           // frozen now
  wanted[4].kinds = {Kind::value, Kind::first_moment, Kind::second_moment};  // frozen then
  const Error e = error_of([&] { checkpoint.check_against(wanted); });
  CHECK(e.blame() == Blame::model);
  for (const char* const part :
       {"model.embed_tokens.weight has shape [37, 11], needed is [37, 12]",
        "model.layers.1.self_attn.q_proj.weight [11, 13] is not in it",
        "model.layers.0.self_attn.q_proj.weight [11, 13] is in it, and nothing uses it",
        "h.0.conv.weight has a first_moment that nothing uses",
        "h.0.conv.weight has a second_moment that nothing uses", "model.norm.weight has no first_moment",
        "step-00000100 does not fit this model"}) {
    CAPTURE(part);
    CHECK_MESSAGE(says(e.what(), part), e.what());
  }
}

TEST_CASE("checkpoint: reading what isn't there is a bug with the names in its text") {
  const ScratchDir scratch;
  const Checkpoint checkpoint = Checkpoint::open(save(scratch.path(), 100, 2));
  std::vector<float> out(12);
  for (const auto& [tensor, kind, first] : std::vector<std::tuple<std::string, Kind, std::int64_t>>{
           {"nobody", Kind::value, 0},
           {"model.norm.weight", Kind::first_moment, 0},
           {"model.norm.weight", Kind::value, 0},
           {"model.norm.weight", Kind::value, -1},
           {"model.embed_tokens.weight", Kind::value, 400}}) {
    const Error e = error_of([&] { checkpoint.read(tensor, kind, first, out); });
    CHECK(e.blame() == Blame::bug);
    CHECK_MESSAGE(says(e.what(), tensor), e.what());
  }
}

TEST_CASE("verify: a flipped byte in any value names its file and dataset") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const Manifest manifest = Checkpoint::open(folder).manifest();
  for (const auto& [tensor, stored] : manifest.tensors) {
    for (const Kind kind : kKinds) {
      for (const StoredPiece& p : stored.of(kind)) {
        const std::string file = rank_file_name(p.rank, 3), good = read_file(folder / file);
        for (const std::int64_t at : {p.offset, p.offset + p.count * 4 - 1}) {
          put(folder / file, flipped(good, std::size_t(at)));
          const Checkpoint checkpoint = Checkpoint::open(folder);
          CHECK(all(checkpoint.verify()) ==
                cat(file, ": dataset /", tensor, "/", name(kind), " differs from what was written"));
          // A load meets it too.
          std::vector<float> out(std::size_t(p.count));
          const Error e = error_of([&] { checkpoint.read(tensor, kind, p.first, out); });
          CHECK(e.blame() == Blame::model);
          CHECK_MESSAGE(says(e.what(), cat(file, ": dataset /", tensor, "/", name(kind))), e.what());
        }
        put(folder / file, good);
      }
    }
  }
  CHECK(trouble(folder) == "");
}

TEST_CASE("verify: a flipped byte anywhere in any file is noticed, and the file named") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 2);
  std::mt19937 random(1);
  for (const char* const file : {"manifest.json", "model.h5", "rank-00000-of-00002.h5",
                                 "rank-00001-of-00002.h5", "hf/config.json", "hf/tokenizer.json"}) {
    const std::string good = read_file(folder / file);
    const bool small = std::string(file) == "manifest.json" || good.size() < 100;
    for (std::size_t i = 0; i < (small ? good.size() : 200); ++i) {
      const std::size_t at = small ? i : random() % good.size();
      put(folder / file, flipped(good, at));
      const std::string text = trouble(folder);
      const std::string base = fs::path(file).filename().string();
      if (!says(text, base)) FAIL(file, " with byte ", at, " flipped: ", text);
    }
    put(folder / file, good);
  }
  CHECK(trouble(folder) == "");
}

TEST_CASE("verify: ranks share the files, and none is left out") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const Manifest manifest = Checkpoint::open(folder).manifest();
  for (const auto& [name, file] : manifest.files) {
    const std::string good = read_file(folder / name);
    put(folder / name, flipped(good, good.size() / 2));
    const Checkpoint checkpoint = Checkpoint::open(folder);
    for (const int parts : {1, 2, 5, 9}) {
      int found = 0;
      for (int part = 0; part < parts; ++part) found += int(!checkpoint.verify(part, parts).empty());
      CHECK(found == 1);
    }
    put(folder / name, good);
  }
}

TEST_CASE("open: cut, missing and swapped files are named, all at once") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 3);
  const std::string zero = read_file(folder / "rank-00000-of-00003.h5");
  put(folder / "rank-00000-of-00003.h5", zero.substr(0, zero.size() / 2));
  put(folder / "hf/config.json", "");
  fs::remove(folder / "rank-00002-of-00003.h5");
  const Error e = error_of([&] { Checkpoint::open(folder); });
  CHECK(e.blame() == Blame::model);
  CHECK_MESSAGE(says(e.what(), cat("rank-00000-of-00003.h5 has ", zero.size() / 2,
                                   " bytes, was written with ", zero.size())),
                e.what());
  CHECK(says(e.what(), "hf/config.json has 0 bytes"));
  CHECK(says(e.what(), "rank-00002-of-00003.h5 is missing"));
}

TEST_CASE("open: a file that is cut after it was opened is an error, not a short read") {
  const ScratchDir scratch;
  const fs::path folder = save(scratch.path(), 100, 1);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  fs::resize_file(folder / "rank-00000-of-00001.h5", 3000);
  std::vector<float> out(11);
  const Error e = error_of([&] { checkpoint.read("model.norm.weight", Kind::value, 0, out); });
  CHECK_MESSAGE(says(e.what(), "rank-00000-of-00001.h5 ends at byte"), e.what());
  CHECK(says(all(checkpoint.verify()), "has 3000 bytes, was written with"));
}

TEST_CASE("open: a path that is no checkpoint is answered with those that are near") {
  const ScratchDir scratch;
  const fs::path run = scratch.path() / "run";
  save(run / "checkpoints", 7, 1);
  save(run / "checkpoints", 10, 1);
  for (const fs::path& path : {run, run / "checkpoints", run / "checkpoints" / "step-00000008"}) {
    const Error e = error_of([&] { Checkpoint::open(path); });
    CHECK(e.blame() == Blame::model);
    CHECK_MESSAGE(says(e.what(), "holds step-00000007, step-00000010"), e.what());
  }
  CHECK(says(error_of([&] { Checkpoint::open(scratch.path() / "nothing"); }).what(), "does not exist"));
}

TEST_CASE("list: by step number, with a reason for what can't be used") {
  const ScratchDir scratch;
  const fs::path folder = scratch.path() / "checkpoints";
  CHECK(list(folder).empty());
  for (const int step : {100, 9, 10, 11}) save(folder, step, 1);
  scratch.write("checkpoints/step-00000012.partial/rank-00000-of-00001.h5", "half");
  scratch.write("checkpoints/step-00000008.deleting/manifest.json", "{}");
  scratch.write("checkpoints/step-13/manifest.json", "not our name");
  scratch.write("checkpoints/notes.txt", "mine");
  put(folder / "step-00000010" / "manifest.json", "");
  fs::rename(folder / "step-00000011", folder / "step-00000014");
  const std::vector<Listed> found = list(folder);
  std::vector<std::string> lines;
  for (const Listed& l : found) lines.push_back(cat(l.step, l.good() ? " good" : " bad"));
  CHECK(join(lines, ", ") == "8 bad, 9 good, 10 bad, 12 bad, 14 bad, 100 good");
  CHECK(found[0].fault == "its removal was stopped");
  CHECK(says(found[2].fault, "manifest.json is not JSON"));
  CHECK(found[3].fault == "unfinished: its save was stopped");
  CHECK(found[4].fault == "its manifest is of step 11");
  CHECK(found[5].state == state_of(100, 1));
  CHECK(found[5].bytes > 0);
}
