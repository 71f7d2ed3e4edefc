// Checks the calls of attention and chooses their kernels: tensor cores for aligned bf16 and f16 with head sizes up
// to 128, plain kernels (attention_plain.cu) for everything else.
#include "kernels/attention_call.cuh"
#include "kernels/attention_path.h"
#include "kernels/attention_plain.cuh"
#include "kernels/cuda_kernels.h"
#include "kernels/vectors.cuh"

namespace zt::kernels {
namespace {

AttentionPath chosen_path = AttentionPath::best;

void check_shape(const char* kernel, const AttentionShape& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0 || s.head_size < 1 ||
      s.head_size > kLargestHead)
    throw Error(Blame::bug, cat(kernel, ": ", s.heads, " heads, ", s.kv_heads, " kv heads of size ",
                                s.head_size, ", at most ", kLargestHead));
  if (!(s.scale > 0.f) || !(s.dropout >= 0.f && s.dropout < 1.f))
    throw Error(Blame::bug, cat(kernel, ": scale ", s.scale, ", dropout ", s.dropout));
}

void check_view(const char* kernel, const char* what, const View& x, std::int64_t rows, std::int64_t cols) {
  if (!x || x.rows != rows || x.cols != cols || x.dtype == Dtype::i32)
    throw Error(Blame::bug, cat(kernel, ": ", what, " is ", x.rows, " x ", x.cols, " of ", name(x.dtype),
                                ", needed ", rows, " x ", cols));
}

void check_tokens(const char* kernel, const char* what, const View& x, std::int64_t tokens) {
  if (x.dtype != Dtype::i32 || x.size() != tokens || !x.contiguous())
    throw Error(Blame::bug, cat(kernel, ": ", what, " must hold one int32 for each of ", tokens, " tokens"));
}

HeadRows rows_of(const View& x) { return {x.data, x.stride, x.dtype}; }
HeadValues values_of(const View& x) { return {x.as<float>(), x.stride}; }
const std::int32_t* words_of(const View& x) { return x ? x.as<const std::int32_t>() : nullptr; }

AttentionCall call_of(const AttentionShape& s, std::int64_t tokens) {
  AttentionCall call;
  call.tokens = int(tokens);
  call.heads = s.heads;
  call.kv_heads = s.kv_heads;
  call.head_size = s.head_size;
  call.window = s.window;
  call.scale = s.scale;
  call.dropout = {s.dropout, 1.f / (1.f - s.dropout), DeviceRandom(s.random), s.first_row, words_of(s.row_N)};
  return call;
}

// Whether the tensor-core kernels can read and write these: one narrow format, rows of whole 16-byte pieces.
bool fits_tensor_cores(const AttentionShape& s, std::initializer_list<View> views) {
  const Dtype dtype = views.begin()->dtype;
  if (chosen_path == AttentionPath::plain || dtype == Dtype::f32 || s.head_size % 8 != 0 || s.head_size > 128)
    return false;
  for (const View& v : views)
    if (v.dtype != dtype) return false;
  return all_aligned(views, 8);
}

// Calls f with a value of the type and the smallest head size of the kernels that fits.
template <typename F>
void with_tensor_kernel(Dtype dtype, int head_size, F f) {
  const auto with_size = [&](auto type) {
    if (head_size <= 64) return f(type, std::integral_constant<int, 64>());
    if (head_size <= 80) return f(type, std::integral_constant<int, 80>());
    if (head_size <= 96) return f(type, std::integral_constant<int, 96>());
    return f(type, std::integral_constant<int, 128>());
  };
  dtype == Dtype::bf16 ? with_size(__nv_bfloat16()) : with_size(__half());
}

// Whether this GPU multiplies by warpgroups, and those kernels can do the call.
bool fits_warpgroups(const AttentionShape& s) {
  if (chosen_path != AttentionPath::best || s.dropout > 0.f || (s.head_size != 64 && s.head_size != 128))
    return false;
  int device = 0, major = 0;
  cuda::check(cudaGetDevice(&device), "attention");
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "attention");
  return major == 9;
}

// Calls f with a value of the type and the head size of the kernels by warpgroups.
template <typename F>
void with_warpgroup_kernel(Dtype dtype, int head_size, F f) {
  const auto with_size = [&](auto type) {
    head_size == 64 ? f(type, std::integral_constant<int, 64>())
                    : f(type, std::integral_constant<int, 128>());
  };
  dtype == Dtype::bf16 ? with_size(__nv_bfloat16()) : with_size(__half());
}

}  // namespace

void set_attention_path(AttentionPath path) { chosen_path = path; }

void CudaKernels::attention(const Attention& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t N = a.q_NHd.rows, d = s.head_size;
  check_shape("attention", s);
  check_view("attention", "q", a.q_NHd, N, s.heads * d);
  check_view("attention", "k", a.k_NKd, N, s.kv_heads * d);
  check_view("attention", "v", a.v_NKd, N, s.kv_heads * d);
  check_view("attention", "o", a.o_NHd, N, s.heads * d);
  check_view("attention", "lse", a.lse_HN, s.heads, N);
  check_tokens("attention", "begin", a.begin_N, N);
  check_tokens("attention", "end", a.end_N, N);
  if (N == 0) return;
  AttentionCall call = call_of(s, N);
  call.q = rows_of(a.q_NHd);
  call.k = rows_of(a.k_NKd);
  call.v = rows_of(a.v_NKd);
  call.o = rows_of(a.o_NHd);
  call.lse = values_of(a.lse_HN);
  call.begin_N = words_of(a.begin_N);
  call.end_N = words_of(a.end_N);
  if (!fits_tensor_cores(s, {a.q_NHd, a.k_NKd, a.v_NKd, a.o_NHd}))
    return launch_plain_attention(call, cuda::current_stream());
  if (fits_warpgroups(s))
    return with_warpgroup_kernel(a.q_NHd.dtype, s.head_size, [&](auto type, auto size) {
      launch_attention_warpgroups<decltype(type), size()>(call, cuda::current_stream());
    });
  with_tensor_kernel(a.q_NHd.dtype, s.head_size, [&](auto type, auto size) {
    launch_attention<decltype(type), size()>(call, cuda::current_stream());
  });
}

void CudaKernels::attention_backward(const AttentionGrad& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t N = a.q_NHd.rows, d = s.head_size;
  check_shape("attention_backward", s);
  for (const View* x : {&a.q_NHd, &a.o_NHd, &a.do_NHd, &a.dq_NHd})
    check_view("attention_backward", "q, o, do or dq", *x, N, s.heads * d);
  for (const View* x : {&a.k_NKd, &a.v_NKd, &a.dk_NKd, &a.dv_NKd})
    check_view("attention_backward", "k, v, dk or dv", *x, N, s.kv_heads * d);
  for (const View* x : {&a.lse_HN, &a.delta_HN})
    check_view("attention_backward", "lse or delta", *x, s.heads, N);
  check_tokens("attention_backward", "begin", a.begin_N, N);
  check_tokens("attention_backward", "end", a.end_N, N);
  if (N == 0) return;
  AttentionCall call = call_of(s, N);
  call.q = rows_of(a.q_NHd);
  call.k = rows_of(a.k_NKd);
  call.v = rows_of(a.v_NKd);
  call.o = rows_of(a.o_NHd);
  call.grad = rows_of(a.do_NHd);
  call.dq = rows_of(a.dq_NHd);
  call.dk = rows_of(a.dk_NKd);
  call.dv = rows_of(a.dv_NKd);
  call.lse = values_of(a.lse_HN);
  call.delta = values_of(a.delta_HN);
  call.begin_N = words_of(a.begin_N);
  call.end_N = words_of(a.end_N);
  if (!fits_tensor_cores(s, {a.q_NHd, a.k_NKd, a.v_NKd, a.o_NHd, a.do_NHd, a.dq_NHd, a.dk_NKd, a.dv_NKd}))
    return launch_plain_attention_backward(call, cuda::current_stream());
  if (fits_warpgroups(s))
    return with_warpgroup_kernel(a.q_NHd.dtype, s.head_size, [&](auto type, auto size) {
      launch_attention_backward_warpgroups<decltype(type), size()>(call, cuda::current_stream());
    });
  with_tensor_kernel(a.q_NHd.dtype, s.head_size, [&](auto type, auto size) {
    launch_attention_backward<decltype(type), size()>(call, cuda::current_stream());
  });
}

void CudaKernels::attention_decode(const AttentionDecode& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t L = a.length, d = s.head_size;
  check_shape("attention_decode", s);
  if (L < 1 || a.k_LKd.rows < L || a.v_LKd.rows < L)
    throw Error(Blame::bug, cat("attention_decode: length ", L, ", cache of ", a.k_LKd.rows, " rows"));
  check_view("attention_decode", "q", a.q_1Hd, 1, s.heads * d);
  check_view("attention_decode", "k", a.k_LKd, a.k_LKd.rows, s.kv_heads * d);
  check_view("attention_decode", "v", a.v_LKd, a.v_LKd.rows, s.kv_heads * d);
  check_view("attention_decode", "o", a.o_1Hd, 1, s.heads * d);
  AttentionCall call = call_of(s, L);
  call.q = rows_of(a.q_1Hd);
  call.k = rows_of(a.k_LKd);
  call.v = rows_of(a.v_LKd);
  call.o = rows_of(a.o_1Hd);
  launch_attention_decode(call, cuda::current_stream());
}

}  // namespace zt::kernels
