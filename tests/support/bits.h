// Bit for bit: the only comparison these tests make between tensors.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include <ATen/core/Tensor.h>

namespace retrace::test {

using Tensors = std::vector<at::Tensor>;

// Same dtype, sizes and bytes. NaNs compare by their bits, -0 differs from 0, undefined equals undefined.
::testing::AssertionResult same_bits(const at::Tensor& expected, const at::Tensor& actual);
::testing::AssertionResult same_bits(const Tensors& expected, const Tensors& actual);

// The state of the default CPU generator.
at::Tensor generator_state();

}  // namespace retrace::test

#define EXPECT_SAME_BITS(expected, actual) EXPECT_TRUE(::retrace::test::same_bits(expected, actual))
#define ASSERT_SAME_BITS(expected, actual) ASSERT_TRUE(::retrace::test::same_bits(expected, actual))
