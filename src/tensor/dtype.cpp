#include "tensor/dtype.h"

namespace zt {

const char* name(Dtype d) {
  switch (d) {
    case Dtype::f32: return "float32";
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
    case Dtype::i32: return "int32";
  }
  return "?";
}

bool parse_dtype(const std::string& text, Dtype* dtype) {
  for (Dtype d : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    if (text == name(d)) {
      *dtype = d;
      return true;
    }
  }
  return false;
}

}  // namespace zt
