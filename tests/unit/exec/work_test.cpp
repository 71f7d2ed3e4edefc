// What the plan says an op computes is what the layers ask of the kernels: the same calls, with the same sizes.
#include "plan/work.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "comm/threads.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

using plan::Kernel;
using plan::Work;

// Notes every call as the plan would, then lets the CPU compute it.
class Noting : public kernels::Kernels {
 public:
  Noting(Dtype dtype, std::vector<Work>* calls) : cpu_(kernels::make_cpu_kernels(dtype)), calls_(calls) {}

  void linear(const kernels::Linear& a) override {
    const std::int64_t m = a.x_NI.rows, n = a.y_NO.cols, k = a.x_NI.cols;
    if (a.b_O) note(Kernel::bias, m, n, 0, a.x_NI);
    note(Kernel::product, m, n, k, a.x_NI);
    cpu_->linear(a);
  }
  void linear_backward(const kernels::LinearGrad& a) override {
    const std::int64_t m = a.dy_NO.rows, n = a.dy_NO.cols, k = a.w_is_IO ? a.w_OI.rows : a.w_OI.cols;
    if (a.dx_NI) note(Kernel::product_dx, m, n, k, a.dy_NO);
    if (a.dw_OI) note(Kernel::product_dw, m, n, k, a.dy_NO);
    if (a.db_O) note(Kernel::bias_grad, m, n, 0, a.dy_NO);
    cpu_->linear_backward(a);
  }
  void rms_norm(const kernels::RmsNorm& a) override {
    norm(Kernel::rms_norm, a.x_ND, a.g_D);
    cpu_->rms_norm(a);
  }
  void rms_norm_backward(const kernels::RmsNormGrad& a) override {
    norm(Kernel::rms_norm_backward, a.x_ND, a.g_D);
    cpu_->rms_norm_backward(a);
  }
  void layer_norm(const kernels::LayerNorm& a) override {
    norm(Kernel::layer_norm, a.x_ND, a.g_D);
    cpu_->layer_norm(a);
  }
  void layer_norm_backward(const kernels::LayerNormGrad& a) override {
    norm(Kernel::layer_norm_backward, a.x_ND, a.g_D);
    cpu_->layer_norm_backward(a);
  }
  void rope(const kernels::Rope& a) override {
    note(Kernel::rope, a.x_NHd);
    cpu_->rope(a);
  }
  void attention(const kernels::Attention& a) override {
    attend(Kernel::attention, a.bounds, a.shape, a.q_NHd);
    cpu_->attention(a);
  }
  void attention_backward(const kernels::AttentionGrad& a) override {
    attend(Kernel::attention_backward, a.bounds, a.shape, a.q_NHd);
    cpu_->attention_backward(a);
  }
  void attention_decode(const kernels::AttentionDecode& a) override { cpu_->attention_decode(a); }
  void gelu(const kernels::Gelu& a) override {
    note(Kernel::gelu, a.x_NF);
    cpu_->gelu(a);
  }
  void gelu_backward(const kernels::GeluGrad& a) override {
    note(Kernel::gelu_backward, a.x_NF);
    cpu_->gelu_backward(a);
  }
  void swiglu(const kernels::SwiGlu& a) override {
    note(Kernel::swiglu, a.y_NF);
    cpu_->swiglu(a);
  }
  void swiglu_backward(const kernels::SwiGluGrad& a) override {
    note(Kernel::swiglu_backward, a.dy_NF);
    cpu_->swiglu_backward(a);
  }
  void embedding(const kernels::Embedding& a) override {
    note(Kernel::embedding, a.y_ND);
    cpu_->embedding(a);
  }
  void embedding_backward(const kernels::EmbeddingGrad& a) override {
    note(Kernel::embedding_backward, a.dy_ND);
    cpu_->embedding_backward(a);
  }
  void dropout(const kernels::Dropout& a) override {
    note(Kernel::dropout, a.x_ND);
    cpu_->dropout(a);
  }
  // By its contract: logits, their loss and both products of their gradient, a chunk of tokens at a time.
  void cross_entropy_head(const kernels::CrossEntropyHead& a) override {
    const std::int64_t V = a.w_VD.rows, D = a.w_VD.cols;
    for (std::int64_t done = 0; done < a.x_ND.rows; done += a.logits_CV.rows) {
      const std::int64_t tokens = std::min(a.logits_CV.rows, a.x_ND.rows - done);
      note(Kernel::product, tokens, V, D, a.x_ND);
      note(Kernel::cross_entropy, tokens, V, 0, a.x_ND);
      if (a.dx_ND) note(Kernel::product_dx, tokens, V, D, a.x_ND);
      if (a.dw_VD) note(Kernel::product_dw, tokens, V, D, a.x_ND);
    }
    cpu_->cross_entropy_head(a);
  }
  void adamw(const kernels::AdamW& a) override {
    calls_->push_back(work_of(Kernel::adamw, 1, a.p_n.cols, 0, a.w_n ? size_of(a.w_n.dtype) : 4));
    cpu_->adamw(a);
  }
  void sum_squares(const kernels::SumSquares& a) override {
    note(Kernel::sum_squares, a.x_n);
    cpu_->sum_squares(a);
  }
  void cast(const kernels::Cast& a) override {
    note(Kernel::copy, a.x);
    cpu_->cast(a);
  }
  void add(const kernels::Add& a) override {
    note(Kernel::add, a.y);
    cpu_->add(a);
  }
  std::int64_t held_bytes() const override { return cpu_->held_bytes(); }

 private:
  void note(Kernel kernel, std::int64_t m, std::int64_t n, std::int64_t k, const View& like) {
    calls_->push_back(work_of(kernel, m, n, k, size_of(like.dtype)));
  }
  void note(Kernel kernel, const View& x) { note(kernel, x.rows, x.cols, 0, x); }
  void norm(Kernel kernel, const View& x, const View& weight) {
    note(kernel, x.rows * (x.cols / weight.size()), weight.size(), 0, x);
  }
  void attend(Kernel kernel, std::span<const std::int32_t> bounds, const kernels::AttentionShape& s,
              const View& q) {
    const auto documents = std::int64_t(bounds.size()) - 1;
    calls_->push_back(
        work_of(kernel, bounds[1] - bounds[0], documents * s.heads, s.head_size, size_of(q.dtype), s.window));
  }

  std::unique_ptr<kernels::Kernels> cpu_;
  std::vector<Work>* calls_;
};

struct Case {
  std::string kind;
  int ranks, stage;
  bool selective = false, dropout = false, frozen = false;
  schedule::Recompute recompute = schedule::Recompute::none;
  Dtype dtype = Dtype::f32;
};

// Passes that no kernel does: the executor copies, clears and adds bytes itself.
bool is_kernel(const Work& work, schedule::OpKind op) {
  const bool moves =
      op == schedule::OpKind::gather || op == schedule::OpKind::reduce || op == schedule::OpKind::accumulate;
  return work.kernel != Kernel::clear && !moves;
}

// One entry a call; an optimizer's pieces as one.
std::vector<Work> flat(const std::vector<Work>& list, schedule::OpKind op) {
  std::vector<Work> out;
  for (const Work& work : list) {
    if (!is_kernel(work, op)) continue;
    const bool pieces = op == schedule::OpKind::update || op == schedule::OpKind::norm;
    if (pieces && !out.empty() && out.back().kernel == work.kernel) {
      out.back().n += work.n;
      out.back().bytes += work.bytes;
      continue;
    }
    for (std::int64_t call = 0; call < work.calls; ++call) {
      out.push_back(work);
      out.back().calls = 1;
    }
  }
  return out;
}

std::string shown(const std::vector<Work>& list) {
  std::string out;
  for (const Work& w : list)
    out += cat(recipe::word_of(w.kernel), " ", w.m, " ", w.n, " ", w.k, " ", w.amount(), "\n");
  return out;
}

exec::EngineOptions options_of(const Case& c) {
  exec::EngineOptions o;
  o.dtype = c.dtype;
  o.shape.dtype = c.dtype == Dtype::f32 ? recipe::ModelDtype::float32 : recipe::ModelDtype::bfloat16;
  o.shape.sequence_length = 16;
  o.shape.rows = o.shape.eval_rows = 5;
  o.shape.micros = 2;
  o.shape.selective = c.selective;
  o.shape.policy.recompute = c.recompute;
  o.shape.policy.zero.gather_weights = c.stage == 3;
  o.shape.policy.zero.reduce = c.stage >= 2 ? schedule::ReduceEvery::micro : schedule::ReduceEvery::step;
  o.shape.partition = plan::Partition::of_stage(c.stage, c.ranks, o.shape.policy.zero.reduce);
  o.dropout = c.dropout ? 0.1f : 0.f;
  return o;
}

spec::ModelSpec model_of(const Case& c) {
  spec::ModelSpec model = small_model(c.kind);
  if (!c.frozen) return model;
  for (spec::BlockSpec& block : model.blocks)
    for (spec::TensorSpec& tensor : block.tensors)
      tensor.trainable = block.kind == spec::BlockKind::transformer && tensor.decay;
  return model;
}

// What rank 0 computed, by op of its list; evaluation's ops in front.
struct Played {
  std::vector<Work> calls;
  std::vector<std::pair<schedule::Op, std::size_t>> ops;  // each, and how many calls there were before it

  std::vector<Work> of(std::size_t i) const {
    const std::size_t end = i + 1 < ops.size() ? ops[i + 1].second : calls.size();
    return {calls.begin() + std::ptrdiff_t(ops[i].second), calls.begin() + std::ptrdiff_t(end)};
  }
};

void play(const Case& c, const spec::ModelSpec& model, comm::Communicator& comm, Played* evaluated,
          Played* trained, plan::StepPlan* plan, plan::StepShape* shape) {
  Played now;
  exec::EngineOptions o = options_of(c);
  o.kernels = [&now](Dtype dtype) { return std::make_unique<Noting>(dtype, &now.calls); };
  o.lanes.before = [&now](const schedule::Op& op) { now.ops.emplace_back(op, now.calls.size()); };
  exec::Engine engine(model, o, &comm);
  shard::initialise(engine.params(), model, 1);
  Ints ids;
  for (int i = 0; i < 16; ++i) ids.push_back((7 * i + 3) % 51);
  const std::vector<exec::HostBatch> micros =
      micro_batches(std::vector<data::Row>(10, row_of(ids, {16})), 5, 16);
  now = {};
  engine.train_step(micros, supervised(micros) * c.ranks, 1, {.lr = 1e-3f, .t = 1}, 1.0);
  if (comm.rank() == 0) {
    *trained = now;
    *plan = engine.plan();
    *shape = o.shape;
    shape->element_bytes = size_of(c.dtype);
    shape->dropout = c.dropout;
  }
  if (c.ranks > 1) return;
  now = {};
  engine.evaluate(micros[0]);
  *evaluated = now;
}

void compare(const Played& played, const schedule::Schedule& list, const spec::ModelSpec& model,
             const plan::StepShape& shape) {
  REQUIRE(played.ops.size() == list.ops.size());
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const schedule::Op& op = list.ops[i];
    CAPTURE(name(op));
    REQUIRE(op == played.ops[i].first);
    CHECK(shown(flat(work_of(list, op, model, shape), op.kind)) == shown(flat(played.of(i), op.kind)));
  }
}

TEST_CASE("the planned work of every op is what its kernels are asked for") {
  using enum schedule::Recompute;
  std::vector<Case> cases;
  for (const char* const kind : {"gpt2", "llama", "qwen2", "qwen3", "mistral"}) {
    cases.push_back({kind, 1, 0});
    cases.push_back({kind, 1, 0, true, true, false});
    cases.push_back({kind, 1, 0, false, false, true});
    cases.push_back({kind, 1, 0, false, true, false, full});
    cases.push_back({kind, 1, 0, false, false, false, sqrt, Dtype::bf16});
    cases.push_back({kind, 2, 2, false, false, false, every});
    cases.push_back({kind, 2, 3, false, false, false, full});
    cases.push_back({kind, 2, 1});
    cases.push_back({kind, 2, 0});
  }
  for (const Case& c : cases) {
    CAPTURE(c.kind);
    CAPTURE(c.ranks);
    CAPTURE(c.stage);
    CAPTURE(int(c.recompute));
    const spec::ModelSpec model = model_of(c);
    Played evaluated, trained;
    plan::StepPlan plan;
    plan::StepShape shape;
    comm::run_threads(c.ranks, 60, [&](comm::Communicator& comm) {
      play(c, model, comm, &evaluated, &trained, &plan, &shape);
    });
    compare(trained, plan.train, model, shape);
    if (c.ranks == 1) compare(evaluated, plan.eval, model, shape);
  }
}

}  // namespace
}  // namespace zt::test
