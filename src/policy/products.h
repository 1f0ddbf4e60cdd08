// The operators that selective() keeps when it is given none: products of matrices, convolutions, fused attention.
#pragma once

#include <cstdint>
#include <string_view>

namespace retrace {

struct Product {
  std::string_view name;
  // What its tensor arguments are, where a formula for its FLOPs is known (report/flops.h).
  enum class Shapes : uint8_t {
    other,
    matrices,          // that are multiplied
    sum_and_matrices,  // something that the product is added to comes first
    convolution,       // (batch, channels, places ...) and the weight
  } shapes;
};

const Product* find_product(std::string_view name);  // null if it is none of them

}  // namespace retrace
