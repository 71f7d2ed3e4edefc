#include "plan/work.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {

using schedule::Op;
using schedule::OpKind;
using schedule::SlotKind;
using spec::BlockSpec;
using spec::Family;
using spec::ModelSpec;

bool counts_flops(Kernel kernel) {
  return kernel <= Kernel::product_dw || kernel == Kernel::attention || kernel == Kernel::attention_backward;
}

// Pairs of a query and a key it sees, over one document of `length` tokens.
static double seen_pairs(std::int64_t length, std::int64_t window) {
  const double T = static_cast<double>(length);
  if (window <= 0 || window >= length) return T * (T + 1) / 2;
  const double w = static_cast<double>(window);
  return w * (w + 1) / 2 + (T - w) * w;
}

// Bytes that a kernel must read and write for each of its m x n elements, e bytes wide.
static double bytes_of_element(Kernel kernel, double e) {
  switch (kernel) {
    case Kernel::clear: return e;
    case Kernel::bias:
    case Kernel::bias_grad: return e;
    case Kernel::sum_squares: return 4;               // fp32 gradients
    case Kernel::adamw: return 28 + (e < 4 ? e : 0);  // p, m, v both ways, g, and narrow weights
    case Kernel::embedding_backward: return e + 8;    // fp32 sums both ways
    case Kernel::cross_entropy: return 4 + e;         // fp32 logits
    case Kernel::embedding:
    case Kernel::layer_norm:
    case Kernel::rms_norm:
    case Kernel::rope:
    case Kernel::gelu:
    case Kernel::copy: return 2 * e;
    case Kernel::gelu_backward:
    case Kernel::swiglu:
    case Kernel::dropout:
    case Kernel::add: return 3 * e;
    case Kernel::layer_norm_backward:
    case Kernel::rms_norm_backward: return 4 * e;  // x, dy, and dx both ways
    case Kernel::swiglu_backward: return 5 * e;
    case Kernel::product:
    case Kernel::product_dx:
    case Kernel::product_dw:
    case Kernel::attention:
    case Kernel::attention_backward: break;
  }
  throw Error(Blame::bug, "bytes by element of a kernel that is more than one pass");
}

Work work_of(Kernel kernel, std::int64_t m, std::int64_t n, std::int64_t k, int element_bytes,
             std::int64_t window) {
  const double M = double(m), N = double(n), K = double(k), e = element_bytes;
  Work work{kernel, m, n, k, 0, 0};
  switch (kernel) {
    case Kernel::product:
    case Kernel::product_dx:
      work.flops = 2 * M * N * K;
      work.bytes = (M * N + M * K + N * K) * e;
      return work;
    case Kernel::product_dw:
      work.flops = 2 * M * N * K;
      work.bytes = (M * N + M * K) * e + N * K * 8;
      return work;
    case Kernel::attention:
      work.flops = 4 * K * N * seen_pairs(m, window);
      work.bytes = 4 * M * N * K * e;
      return work;
    case Kernel::attention_backward:
      work.flops = 10 * K * N * seen_pairs(m, window);
      work.bytes = 8 * M * N * K * e;
      return work;
    default: work.bytes = M * N * bytes_of_element(kernel, e); return work;
  }
}

namespace {

// A linear layer: its matrix, and its bias where the model has one. Several tensors that lie side by side are one matrix.
struct Layer {
  std::int64_t outputs, inputs;
  bool bias;
  bool trained, bias_trained;
};

// Collects the calls of one op.
class Calls {
 public:
  Calls(const ModelSpec& model, const StepShape& shape, const RunShape& run)
      : model_(model),
        shape_(shape),
        e_(run.element_bytes),
        N_(run.tokens),
        D_(model.hidden),
        F_(model.intermediate),
        run_(run),
        gpt_(model.family == Family::gpt2) {}

  void embedding_forward() {
    pass(Kernel::embedding, N_, D_);
    if (dropout()) pass(Kernel::dropout, N_, D_);
  }
  void embedding_backward() {
    if (run_.dropout) pass(Kernel::dropout, N_, D_);
    pass(Kernel::embedding_backward, N_, D_);
  }
  void block_forward(const BlockSpec& block, int layer, bool with_output);
  void block_backward(const BlockSpec& block, int layer);
  void head(const BlockSpec& block, bool backward);

  void pass(Kernel kernel, std::int64_t m, std::int64_t n, int bytes = 0) {
    if (m > 0 && n > 0) add(work_of(kernel, m, n, 0, bytes > 0 ? bytes : e_));
  }
  void evaluate() { training_ = false; }
  std::vector<Work> take() { return std::move(list_); }

 private:
  bool dropout() const { return training_ && run_.dropout; }
  void add(Work work, std::int64_t calls = 1) {
    work.calls = calls;
    list_.push_back(work);
  }
  Layer layer(const BlockSpec& block, const char* first, const char* last) const;
  Layer layer(const BlockSpec& block, const char* role) const { return layer(block, role, role); }
  void forward(const Layer& l) {
    if (l.bias) pass(Kernel::bias, N_, l.outputs);
    add(work_of(Kernel::product, N_, l.outputs, l.inputs, e_));
  }
  void backward(const Layer& l) {
    add(work_of(Kernel::product_dx, N_, l.outputs, l.inputs, e_));
    if (l.trained) add(work_of(Kernel::product_dw, N_, l.outputs, l.inputs, e_));
    if (l.bias && l.bias_trained) pass(Kernel::bias_grad, N_, l.outputs);
  }
  // x + f(x): the residual is copied, and the product adds to it.
  void branch(const Layer& l) {
    pass(Kernel::copy, N_, D_);
    forward(l);
    if (dropout()) pass(Kernel::dropout, N_, D_);
  }
  void norm(std::int64_t rows, std::int64_t width) {
    pass(gpt_ ? Kernel::layer_norm : Kernel::rms_norm, rows, width);
  }
  void norm_backward(std::int64_t rows, std::int64_t width) {
    pass(gpt_ ? Kernel::layer_norm_backward : Kernel::rms_norm_backward, rows, width);
  }
  void rope() {
    if (gpt_) return;
    pass(Kernel::rope, N_, model_.q_size());
    pass(Kernel::rope, N_, model_.kv_size());
  }
  void qk_norm();
  void qk_norm_backward();
  void attention(Kernel kernel, int layer) {
    const std::int64_t length = shape_.sequence_length;
    add(work_of(kernel, length, N_ / length * model_.heads, model_.head_size, e_, model_.window(layer)));
  }
  void activation() { pass(gpt_ ? Kernel::gelu : Kernel::swiglu, N_, F_); }
  void activation_backward() { pass(gpt_ ? Kernel::gelu_backward : Kernel::swiglu_backward, N_, F_); }

  const ModelSpec& model_;
  const StepShape& shape_;
  const int e_;
  const std::int64_t N_, D_, F_;  // tokens, width, MLP width
  const RunShape& run_;
  const bool gpt_;
  bool training_ = true;
  std::vector<Work> list_;
};

Layer Calls::layer(const BlockSpec& block, const char* first, const char* last) const {
  Layer l{0, 0, false, false, false};
  const auto from = std::ranges::find(block.tensors, first, &spec::TensorSpec::role);
  for (auto it = from; it != block.tensors.end(); ++it) {
    l.outputs += it->shape[gpt_ ? 1 : 0];
    l.inputs = it->shape[gpt_ ? 0 : 1];
    l.trained = l.trained || it->trainable;
    if (it->role == last) break;
  }
  std::string bias = first;
  bias.replace(bias.size() - 6, 6, "bias");  // "q_proj.weight"
  const spec::TensorSpec* const b = block.find(bias);
  l.bias = b != nullptr;
  l.bias_trained = l.bias && b->trainable;
  return l;
}

void Calls::qk_norm() {
  if (!model_.qk_norm) return;
  pass(Kernel::copy, N_, model_.q_size() + model_.kv_size());
  norm(N_ * model_.heads, model_.head_size);
  norm(N_ * model_.kv_heads, model_.head_size);
}

void Calls::qk_norm_backward() {
  if (!model_.qk_norm) return;
  norm_backward(N_ * model_.heads, model_.head_size);
  norm_backward(N_ * model_.kv_heads, model_.head_size);
}

struct Roles {
  const char *qkv_first, *qkv_last, *out, *up_first, *up_last, *down;
};
constexpr Roles kGpt = {"attn.c_attn.weight", "attn.c_attn.weight", "attn.c_proj.weight",
                        "mlp.c_fc.weight",    "mlp.c_fc.weight",    "mlp.c_proj.weight"};
constexpr Roles kLlama = {"q_proj.weight",    "v_proj.weight",  "o_proj.weight",
                          "gate_proj.weight", "up_proj.weight", "down_proj.weight"};

void Calls::block_forward(const BlockSpec& block, int index, bool with_output) {
  const Roles& r = gpt_ ? kGpt : kLlama;
  norm(N_, D_);
  forward(layer(block, r.qkv_first, r.qkv_last));
  qk_norm();
  rope();
  attention(Kernel::attention, index);
  branch(layer(block, r.out));
  norm(N_, D_);
  forward(layer(block, r.up_first, r.up_last));
  activation();
  if (with_output) branch(layer(block, r.down));
}

void Calls::block_backward(const BlockSpec& block, int index) {
  const Roles& r = gpt_ ? kGpt : kLlama;
  if (run_.dropout) pass(Kernel::dropout, N_, D_);
  if (run_.selective) activation();
  backward(layer(block, r.down));
  activation_backward();
  if (run_.selective) norm(N_, D_);
  backward(layer(block, r.up_first, r.up_last));
  norm_backward(N_, D_);
  if (run_.dropout) pass(Kernel::dropout, N_, D_);
  backward(layer(block, r.out));
  attention(Kernel::attention_backward, index);
  rope();
  qk_norm_backward();
  if (run_.selective) norm(N_, D_);
  backward(layer(block, r.qkv_first, r.qkv_last));
  norm_backward(N_, D_);
}

void Calls::head(const BlockSpec& block, bool backward) {
  const std::int64_t chunk = head_chunk(model_, run_), V = model_.vocab;
  const BlockSpec& holder = model_.tied ? model_.embedding() : block;
  const spec::TensorSpec& matrix = model_.tied ? holder.tensors.front() : holder.tensors.back();
  norm(N_, D_);
  const auto piece = [&](std::int64_t tokens, std::int64_t calls) {
    if (tokens == 0 || calls == 0) return;
    add(work_of(Kernel::product, tokens, V, D_, e_), calls);
    add(work_of(Kernel::cross_entropy, tokens, V, 0, e_), calls);
    if (!backward) return;
    add(work_of(Kernel::product_dx, tokens, V, D_, e_), calls);
    if (matrix.trainable) add(work_of(Kernel::product_dw, tokens, V, D_, e_), calls);
  };
  piece(chunk, N_ / chunk);
  piece(N_ % chunk, 1);
  if (backward) norm_backward(N_, D_);
}

// Gradients that arise in this op begin as zeros.
void clear_born_gradients(const schedule::Schedule& list, const Op& op, Calls& calls) {
  for (const schedule::SlotId id : op.births)
    if (const schedule::Slot& slot = list.slots[std::size_t(id)]; slot.kind == SlotKind::G)
      calls.pass(Kernel::clear, 1, slot.bytes / 4, 4);
}

}  // namespace

std::vector<Work> work_of(const schedule::Schedule& list, const Op& op, const ModelSpec& model,
                          const StepShape& shape) {
  const bool training = list.kind == schedule::StepKind::train;
  const RunShape run = training ? shape.train_shape() : shape.eval_shape();
  Calls calls(model, shape, run);
  if (!training) calls.evaluate();
  if (op.block < 0) return {};  // the norm of all blocks: a few numbers of each rank
  const BlockSpec& block = model.blocks[std::size_t(op.block)];
  const BlockLayout layout(block, shape.partition);
  const Partition& p = shape.partition;
  const bool has_whole = find_slot(list, op, SlotKind::G, op.block) != schedule::kNoSlot;
  switch (op.kind) {
    case OpKind::forward:
    case OpKind::recompute:
      if (op.block == 0)
        calls.embedding_forward();
      else
        calls.block_forward(block, op.block - 1,
                            find_slot(list, op, SlotKind::X, op.block + 1) != schedule::kNoSlot);
      break;
    case OpKind::head:
      clear_born_gradients(list, op, calls);
      calls.head(block, training);
      break;
    case OpKind::backward:
      clear_born_gradients(list, op, calls);
      if (op.block == 0)
        calls.embedding_backward();
      else
        calls.block_backward(block, op.block - 1);
      break;
    case OpKind::gather:  // its own slice goes to its place first
      if (find_slot(list, op, SlotKind::W, op.block) != schedule::kNoSlot)
        calls.pass(Kernel::copy, 1, layout.slice());
      break;
    case OpKind::accumulate: calls.pass(Kernel::add, 1, layout.padded(), shape.grad_bytes); break;
    case OpKind::reduce:
      if (has_whole)
        calls.pass(Kernel::add, 1,
                   p.grads_whole ? layout.trained({0, block.elements}) : layout.most_trained(),
                   shape.grad_bytes);
      break;
    case OpKind::norm: calls.pass(Kernel::sum_squares, 1, layout.most_trained()); break;
    case OpKind::update: {
      calls.pass(Kernel::adamw, 1,
                 p.update_whole ? layout.trained({0, block.elements}) : layout.most_trained());
      calls.pass(Kernel::clear, 1, block_bytes(block, shape).grads / shape.grad_bytes, shape.grad_bytes);
      break;
    }
  }
  return calls.take();
}

}  // namespace zt::plan
