// Damaged checkpoints are named, passed over, and never taken for good ones.
#include <algorithm>

#include "fault/fault_desk.h"

namespace zt::test {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Kind;

// A run with checkpoints of steps 2, 4 and 6.
struct DamageDesk : FaultDesk {
  DamageDesk() { good(kTwo, {"train.max_steps=6"}); }

  void flip(const std::string& name, std::int64_t offset) const {
    std::fstream file(path() / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
    file.close();
    REQUIRE(bool(file));
  }
  std::int64_t size(const std::string& name) const {
    return static_cast<std::int64_t>(fs::file_size(path() / name));
  }
  // Where the last element of a tensor lies in which file of step 6.
  std::pair<std::string, std::int64_t> last_element(const std::string& tensor, Kind kind) const {
    const Checkpoint whole = Checkpoint::open(path() / step_folder("out", 6));
    const checkpoint::StoredPiece& piece = whole.manifest().tensors.at(tensor).of(kind).back();
    return {checkpoint::rank_file_name(piece.rank, 2), piece.offset + piece.count * 4 - 1};
  }
  void restore(const std::string& from) const {
    fs::remove_all(path() / "out");
    fs::copy(path() / from, path() / "out", fs::copy_options::recursive);
  }
};

struct Damage {
  std::string file;
  std::int64_t offset;
  std::string told;  // beside the file's name
};

}  // namespace

TEST_CASE(
    "fault: verify names the file and the dataset of one flipped byte, and a run goes on from the one "
    "before") {
  const DamageDesk desk;
  fs::copy(desk.path() / "out", desk.path() / "kept", fs::copy_options::recursive);
  const std::string newest = FaultDesk::step_folder("out", 6), older = FaultDesk::step_folder("out", 4);
  CHECK(desk.run({"checkpoint", "verify", "out"}).status == 0);
  const std::string q = "model.layers.1.self_attn.q_proj.weight", norm = "model.norm.weight";
  const auto [q_file, q_at] = desk.last_element(q, Kind::value);
  const auto [m_file, m_at] = desk.last_element(norm, Kind::first_moment);
  const auto [v_file, v_at] = desk.last_element("model.embed_tokens.weight", Kind::second_moment);
  const std::int64_t manifest = desk.size(newest + "/manifest.json");
  const std::vector<Damage> damages = {
      {q_file, q_at, "dataset /" + q + "/value differs from what was written"},
      {m_file, m_at, "dataset /" + norm + "/first_moment differs from what was written"},
      {v_file, v_at, "dataset /model.embed_tokens.weight/second_moment differs from what was written"},
      {q_file, 0, "differs from what was written, outside its datasets' values"},
      {"model.h5", desk.size(newest + "/model.h5") / 2, "differs from what was written"},
      {"hf/config.json", 9, "differs from what was written"},
      {"hf/tokenizer.json", 5, "differs from what was written"},
      {"manifest.json", 0, ""},
      {"manifest.json", manifest / 3, ""},
      {"manifest.json", manifest - 3, ""},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.file);
    CAPTURE(damage.offset);
    desk.restore("kept");
    desk.flip(newest + "/" + damage.file, damage.offset);

    const Outcome verify = desk.run({"checkpoint", "verify", "out"});
    CHECK(verify.status == 4);
    const std::string name = fs::path(damage.file).filename();
    CHECK_MESSAGE(contains(verify.err, name), verify.err);
    CHECK_MESSAGE(contains(verify.err, damage.told), verify.err);
    CHECK(contains(verify.err, "step-00000006"));
    CHECK_FALSE(contains(verify.err, "step-00000004"));
    CHECK(contains(verify.out, "step-00000004: every byte is right"));
    CHECK(desk.run({"checkpoint", "verify", newest}).status == 4);
    CHECK(desk.run({"checkpoint", "verify", older}).status == 0);

    const Outcome named = desk.train(kTwo, {"train.max_steps=8"}, {"--resume", newest});
    CHECK(named.status == 4);
    CHECK_MESSAGE(contains(named.err, name), named.err);
    const Outcome on = desk.good(kTwo, {"train.max_steps=8"});
    CHECK(contains(on.err, "warning: "));
    CHECK(contains(on.err, "step-00000006"));
    CHECK(contains(on.err, name));
    CHECK(contains(on.err, "going on after step 4 from "));
    CHECK(desk.run({"checkpoint", "verify", "out"}).status == 0);  // step 6 was saved anew
  }
}

TEST_CASE("fault: files that are missing, cut or empty make a checkpoint unusable, and are named") {
  const DamageDesk desk;
  fs::copy(desk.path() / "out", desk.path() / "kept", fs::copy_options::recursive);
  const std::string newest = FaultDesk::step_folder("out", 6);
  for (const std::string file : {"rank-00001-of-00002.h5", "model.h5", "hf/config.json", "manifest.json"}) {
    for (const char* how : {"missing", "cut", "empty"}) {
      CAPTURE(file);
      CAPTURE(how);
      desk.restore("kept");
      const fs::path path = desk.path() / newest / file;
      if (how[0] == 'm') fs::remove(path);
      if (how[0] == 'c') fs::resize_file(path, fs::file_size(path) - 1);
      if (how[0] == 'e') fs::resize_file(path, 0);
      const Outcome list = desk.run({"checkpoint", "list", "out"});
      CHECK(list.status == 0);
      CHECK(count(list.out, "not usable: ") == 1);
      CHECK_MESSAGE(contains(list.out, fs::path(file).filename()), list.out);
      CHECK(desk.run({"checkpoint", "verify", "out"}).status == 4);
      CHECK(desk.run({"checkpoint", "inspect", newest}).status == 4);
      CHECK(desk.run({"generate", "--model", newest, "--max-tokens", "1"}).status == 4);
    }
  }
  CHECK(contains(desk.good(kAlone, {"train.max_steps=8"}).err, "going on after step 4 from "));
}

TEST_CASE("fault: where every checkpoint is damaged nothing starts, afresh least of all") {
  const DamageDesk desk;
  fs::remove_all(desk.path() / "out/export");
  for (const int step : {2, 4, 6}) {
    const std::string folder = FaultDesk::step_folder("out", step);
    if (step == 4)
      desk.flip(folder + "/manifest.json", 3);
    else
      desk.flip(folder + "/rank-00000-of-00002.h5", desk.size(folder + "/rank-00000-of-00002.h5") / 2);
  }
  const std::string metrics = desk.read("out/metrics.jsonl");
  for (const Way& way : {kAlone, kTwo, kTwoLaunched}) {
    for (const char* resume : {"auto", "must"}) {
      CAPTURE(way.name());
      CAPTURE(resume);
      const Outcome o = desk.train(way, {}, {"--resume", resume});
      CHECK(o.status == 4);
      CHECK_MESSAGE(count(o.err, "error: ") == 1, o.err);
      CHECK_MESSAGE(contains(o.err, "all 3 checkpoints in out/checkpoints are damaged"), o.err);
      CHECK(contains(o.err, "run.output_dir=NEW"));
      for (const char* step : {"2", "4", "6"}) CHECK(contains(o.err, cat("step-0000000", step)));
    }
  }
  CHECK(desk.read("out/metrics.jsonl") == metrics);
  CHECK(desk.checkpoints("out").size() == 3);
}

TEST_CASE("fault: h5py reads the weights of a real run, as the export has them") {
  const DamageDesk desk;
  const auto python = [&desk](const Words& words) {
    Words command = {"/usr/bin/python3"};
    command.insert(command.end(), words.begin(), words.end());
    return desk.finish(desk.start_command(command), 60);
  };
  if (python({"-c", "import h5py, numpy"}).status != 0) {
    MESSAGE("skipped: /usr/bin/python3 has no h5py");
    return;
  }
  const std::string script = (source_dir() / "scripts/read_checkpoint.py").string();
  const std::string folder = FaultDesk::step_folder("out", 6);
  const Outcome all = python({script, folder});
  REQUIRE_MESSAGE(all.status == 0, all.err);
  CHECK(contains(all.out, "step 6\n"));
  CHECK(contains(all.out, "model.layers.1.mlp.down_proj.weight [24, 40] mean "));
  const Checkpoint whole = Checkpoint::open(desk.path() / folder);
  CHECK(count(all.out, " mean ") == int(whole.manifest().tensors.size()));
  const std::string tensor = "model.layers.0.mlp.up_proj.weight";
  const Outcome one = python({script, folder, tensor});
  REQUIRE_MESSAGE(one.status == 0, one.err);
  std::vector<float> values(40 * 24), shown;
  whole.read(tensor, Kind::value, 0, values);
  std::istringstream in(one.out);
  for (float value = 0; in >> value;) shown.push_back(value);
  CHECK(shown == values);
}

}  // namespace zt::test
