// A small model whose every number says where it belongs, divided among ranks as a run would.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/save.h"
#include "comm/threads.h"

namespace zt::test {

namespace ckpt = zt::checkpoint;

struct Tensor {
  std::string name;
  ckpt::Shape shape;
  bool frozen = false;
  std::int64_t elements() const { return exchange::elements_of(shape); }
};

// Sizes that no number of ranks divides, a tensor smaller than a rank's share, three dimensions, a frozen one.
inline std::vector<Tensor> tensors() {
  return {{"model.embed_tokens.weight", {37, 11}},
          {"model.layers.0.self_attn.q_proj.weight", {11, 13}},
          {"model.layers.0.input_layernorm.weight", {1}},
          {"h.0.conv.weight", {3, 5, 7}},
          {"model.norm.weight", {11}, /*frozen=*/true}};
}

// Exact in fp32, and different for every tensor, kind and element.
inline float number(std::size_t tensor, ckpt::Kind kind, std::int64_t element) {
  return float(std::int64_t(tensor) * 30000 + std::int64_t(kind) * 10000 + element) / 4;
}

inline std::vector<ckpt::Kind> kinds_of(const Tensor& tensor) {
  if (tensor.frozen) return {ckpt::Kind::value};
  return {std::begin(ckpt::kKinds), std::end(ckpt::kKinds)};
}

// One rank's pieces: the tensors lie one after the other, cut into equal slices, the last ones short or empty.
struct Share {
  std::vector<std::vector<float>> memory;
  std::vector<ckpt::Piece> pieces;

  Share(int rank, int ranks) {
    std::int64_t all = 0, at = 0;
    for (const Tensor& t : tensors()) all += t.elements();
    const std::int64_t slice = (all + ranks - 1) / ranks, begin = rank * slice, end = begin + slice;
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      const Tensor t = tensors()[i];
      const std::int64_t first = std::max(begin, at) - at, last = std::min(end, at + t.elements()) - at;
      if (first < last) {
        for (const ckpt::Kind kind : kinds_of(t)) add(i, t, kind, first, last - first);
      }
      at += t.elements();
    }
  }
  void add(std::size_t i, const Tensor& t, ckpt::Kind kind, std::int64_t first, std::int64_t count) {
    std::vector<float>& data = memory.emplace_back();
    for (std::int64_t e = first; e < first + count; ++e) data.push_back(number(i, kind, e));
    pieces.push_back({t.name, t.shape, kind, first, count, data.data()});
  }
};

inline ckpt::RunState state_of(std::int64_t step, int ranks, const std::string& run_id = "run-1") {
  ckpt::RunState s;
  s.run_id = run_id;
  s.step = step;
  s.updates = step - 1;
  s.samples = step * 32;
  s.left_out = {{64, 32}, {320, 8}};
  s.bad_steps = {2, {2.5, 0.1 + 0.2}};
  s.seed = 42;
  s.loss_scale = {65536.0, 17, 2};
  s.learning_rate_schedule = "cosine";
  s.learning_rate = {{"peak", 3e-4}, {"warmup_steps", 10}};
  s.recipe = "run: {seed: 42}\n# \"quoted\", \u00fc\n";
  s.build = "0.1.0";
  s.data_digest = "d1";
  s.tokenizer_digest = "t1";
  s.model_config = {{"model_type", "llama"}, {"hidden_size", 11}};
  s.fingerprint = "0123456789abcdef";
  s.ranks = ranks;
  s.stage = 3;
  s.dtype = "bfloat16";
  s.place = {{"hosts", {"n1", "n2"}}, {"job", {{"id", "17"}, {"restarts", 1}}}};
  return s;
}

inline std::map<std::string, std::string> companion_files() {
  return {{"config.json", "{\"model_type\": \"llama\"}"},
          {"tokenizer.json", std::string("\0\xff binary", 9)}};
}

// Runs on each of `ranks` virtual ranks.
inline void on_ranks(int ranks, const std::function<void(comm::Communicator&)>& body) {
  comm::run_threads(ranks, 60, body);
}

inline void save_on(comm::Communicator& c, const std::filesystem::path& folder, std::int64_t step,
                    const std::string& run_id = "run-1") {
  const Share share(c.rank(), c.size());
  ckpt::Save save({folder, step, run_id}, ckpt::bytes_of(share.pieces), c);
  save.write(share.pieces);
  save.commit(c, state_of(step, c.size(), run_id), companion_files());
}

// Saves the pretended model and returns the checkpoint's folder.
inline std::filesystem::path save(const std::filesystem::path& folder, std::int64_t step, int ranks,
                                  const std::string& run_id = "run-1") {
  on_ranks(ranks, [&](comm::Communicator& c) { save_on(c, folder, step, run_id); });
  return folder / fmt::format("step-{:08}", step);
}

inline std::vector<ckpt::Need> needs() {
  std::vector<ckpt::Need> out;
  for (const Tensor& t : tensors()) out.push_back({t.name, t.shape, kinds_of(t)});
  return out;
}

// The names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

// What `work` throws; fails the test when it throws nothing.
template <typename Work>
Error error_of(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  FAIL("no error was thrown");
  return Error(Blame::bug, "");
}

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace zt::test
