// Each formula against the sizes it comes from.
#include "report/flops.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace retrace::report {
namespace {

using Shape = std::vector<int64_t>;

int64_t bytes_of(const Shape& shape, int64_t size = 4) {
  int64_t bytes = size;
  for (const int64_t n : shape) bytes *= n;
  return bytes;
}

plan::Op made(const std::string& name, const Shape& out, const std::string& dtype) {
  plan::Op op;
  op.name = name;
  op.outputs = {{out, dtype, "cpu"}};
  return op;
}

// One operator, whose arguments come from operators that made them in these shapes.
std::optional<double> flops(const std::string& name, const std::vector<Shape>& args, const Shape& out,
                            const std::string& dtype = "float32") {
  const int64_t size = dtype == "bfloat16" ? 2 : 4;
  plan::Graph graph;
  plan::Op op = made(name, out, dtype);
  for (const Shape& shape : args) {
    op.args.push_back({.value = static_cast<plan::ValueId>(graph.values.size())});
    plan::Value& value = graph.values.emplace_back();
    value.bytes = bytes_of(shape, size);
    value.producer = static_cast<plan::OpId>(graph.ops.size());
    graph.ops.push_back(made("aten::relu", shape, dtype));
  }
  return flops_of(graph, op);
}

TEST(Flops, OfProductsAreTwoForEachMultiplicationWithItsAddition) {
  EXPECT_EQ(flops("aten::mm", {{4, 5}, {5, 6}}, {4, 6}), 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::mm", {{4, 5}, {5, 6}}, {4, 6}, "bfloat16"), 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::addmm", {{6}, {4, 5}, {5, 6}}, {4, 6}), 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::bmm", {{3, 4, 5}, {3, 5, 6}}, {3, 4, 6}), 3 * 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::baddbmm", {{3, 4, 6}, {3, 4, 5}, {3, 5, 6}}, {3, 4, 6}), 3 * 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::addbmm", {{4, 6}, {3, 4, 5}, {3, 5, 6}}, {4, 6}), 3 * 2 * 4 * 5 * 6);
  EXPECT_EQ(flops("aten::mv", {{4, 5}, {5}}, {4}), 2 * 4 * 5);
  EXPECT_EQ(flops("aten::dot", {{7}, {7}}, {}), 2 * 7);
  EXPECT_EQ(flops("aten::linear", {{2, 4, 5}, {6, 5}, {6}}, {2, 4, 6}), 2 * 2 * 4 * 5 * 6);
}

TEST(Flops, OfConvolutionsCountStridesGroupsAndTransposedOnes) {
  EXPECT_EQ(flops("aten::convolution", {{2, 3, 8, 8}, {16, 3, 3, 3}}, {2, 16, 8, 8}), 2.0 * 2 * 16 * 64 * 3 * 9);
  EXPECT_EQ(flops("aten::convolution", {{2, 3, 8, 8}, {16, 3, 3, 3}}, {2, 16, 4, 4}), 2.0 * 2 * 16 * 16 * 3 * 9);
  EXPECT_EQ(flops("aten::convolution", {{2, 16, 8, 8}, {16, 1, 3, 3}}, {2, 16, 8, 8}), 2.0 * 2 * 16 * 64 * 9)
      << "a group for each channel";
  EXPECT_EQ(flops("aten::convolution", {{2, 16, 4, 4}, {16, 8, 2, 2}}, {2, 8, 8, 8}), 2.0 * 2 * 16 * 16 * 8 * 4)
      << "transposed: each of the 4 x 4 places writes 2 x 2 others";
  EXPECT_EQ(flops("aten::convolution", {{2, 3, 10}, {16, 3, 3}}, {2, 16, 8}), 2.0 * 2 * 16 * 8 * 3 * 3);
}

TEST(Flops, OfFusedAttentionAreItsTwoProducts) {
  constexpr const char* kName = "aten::_scaled_dot_product_flash_attention_for_cpu";
  EXPECT_EQ(flops(kName, {{2, 4, 10, 8}, {2, 4, 12, 8}, {2, 4, 12, 8}}, {2, 4, 10, 8}), 2.0 * 2 * 2 * 4 * 10 * 12 * 8);
}

TEST(Flops, OfOtherOperatorsAreNoneAndOfUnknownShapesUnknown) {
  EXPECT_EQ(flops("aten::gelu", {{4, 5}}, {4, 5}), 0);
  EXPECT_EQ(flops("aten::mkldnn_rnn_layer", {{4, 5}, {4, 5}}, {4, 5}), std::nullopt) << "no formula";
  EXPECT_EQ(flops("aten::mm", {{4, 5}, {5, 7}}, {4, 6}), std::nullopt) << "no sizes of one product";
  EXPECT_EQ(flops("aten::mm", {}, {4, 6}), std::nullopt);
  EXPECT_EQ(flops("aten::convolution", {}, {4, 6, 7}), std::nullopt);
  EXPECT_EQ(flops("aten::mm", {{0, 5}, {5, 6}}, {0, 6}), std::nullopt);
  EXPECT_EQ(flops("aten::mm", {{4, 5}, {5, 6}}, {4, 6}, "complex64"), std::nullopt);
  plan::Op of_version_1;
  of_version_1.name = "aten::mm";
  EXPECT_EQ(flops_of(plan::Graph(), of_version_1), std::nullopt);
}

}  // namespace
}  // namespace retrace::report
