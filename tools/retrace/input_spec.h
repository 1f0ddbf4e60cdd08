// The inputs of a TorchScript file as people write them: "f32[8,3,224,224]", "i64[4,128]:50257".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace retrace::cli {

struct InputSpec {
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
  int64_t below = 2;  // of integers: random ones from 0 up to this

  at::Tensor make() const;  // random content, from the ambient generator
};

// Throws BadInput, with what is wrong and how to write it.
InputSpec parse_input(const std::string& text);

}  // namespace retrace::cli
