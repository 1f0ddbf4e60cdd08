// Tensors go into a stack where they came out of it.
#include "tape/stack.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <array>

namespace retrace::test::stacks {

Op op_of(const char* name, const char* overload) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  return Op(handle, traits_of(handle));
}

std::vector<std::pair<float, int32_t>> visited(const c10::IValue& v) {
  std::vector<std::pair<float, int32_t>> seen;
  visit_tensors(v, [&](const at::Tensor& t, int32_t element) {
    seen.emplace_back(t.defined() ? t.item<float>() : -1.0F, element);
  });
  return seen;
}

using Seen = std::vector<std::pair<float, int32_t>>;

TEST(Stack, EveryTensorIsVisitedWithItsPlaceInItsList) {
  const at::Tensor one = at::scalar_tensor(1), two = at::scalar_tensor(2);
  EXPECT_EQ(visited(one), (Seen{{1, kNone}}));
  EXPECT_EQ(visited(c10::IValue()), Seen{});
  EXPECT_EQ(visited(at::Tensor()), (Seen{{-1, kNone}}));
  EXPECT_EQ(visited(c10::List<at::Tensor>({one, two})), (Seen{{1, 0}, {2, 1}}));
  c10::List<c10::optional<at::Tensor>> optionals;
  optionals.push_back(c10::nullopt);
  optionals.push_back(two);
  EXPECT_EQ(visited(optionals), (Seen{{2, 1}}));
  EXPECT_EQ(visited(c10::List<int64_t>({1, 2})), Seen{});
}

TEST(Stack, TensorsAreVisitedInWhateverHoldsThem) {
  const at::Tensor one = at::scalar_tensor(1), two = at::scalar_tensor(2);
  EXPECT_EQ(visited(c10::ivalue::Tuple::create({one, c10::IValue(3), two})).size(), 2U);
  c10::Dict<std::string, at::Tensor> dictionary;
  dictionary.insert("x", one);
  EXPECT_EQ(visited(dictionary).size(), 1U);
}

TEST(Stack, WhatAnOperatorReturnedIsFlattenedAndItsNumbersAreLeftOut) {
  const at::Tensor one = at::scalar_tensor(1), two = at::scalar_tensor(2), argument = at::scalar_tensor(3);
  const std::vector<c10::IValue> stack{argument, c10::List<at::Tensor>({one, two}), 5, two};
  const Tensors tensors = returned_tensors(stack, 3);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(tensors[0].is_same(one) && tensors[1].is_same(two) && tensors[2].is_same(two));
}

TEST(Stack, TensorsAreFilledIntoTheirPlaces) {
  Op op = op_of("aten::index_put", "");
  op.stack = {{}, {}, {}, true};
  op.lists = {{1, 3, true}};
  op.args.resize(3);
  op.args[0].slot = 0;
  op.args[1].slot = 1;
  op.args[1].element = 2;
  op.args[2].slot = 2;
  const at::Tensor self = at::ones({2}), index = at::zeros({1}), values = at::ones({1});
  const std::vector<c10::IValue> stack = filled_stack(op, [&](size_t i) { return std::array{self, index, values}[i]; });
  EXPECT_TRUE(stack[0].toTensor().is_same(self));
  const auto indices = stack[1].toOptionalTensorVector();
  ASSERT_EQ(indices.size(), 3U);
  EXPECT_FALSE(indices[0] || indices[1]);
  EXPECT_TRUE(indices[2]->is_same(index));
  EXPECT_TRUE(stack[2].toTensor().is_same(values));
  EXPECT_TRUE(stack[3].toBool());
}

TEST(Stack, AnUndefinedTensorLeavesItsPlaceEmpty) {
  Op op = op_of("aten::add", "Tensor");
  op.stack = {{}, {}, 1};
  op.args.resize(2);
  op.args[1].slot = 1;
  const std::vector<c10::IValue> stack =
      filled_stack(op, [](size_t i) { return i == 0 ? at::ones({2}) : at::Tensor(); });
  EXPECT_TRUE(stack[0].isTensor());
  EXPECT_TRUE(stack[1].isNone());
}

TEST(Stack, AListThatMayHoldATensorIsNotPlain) {
  EXPECT_TRUE(is_plain(c10::List<int64_t>({1, 2})));
  EXPECT_TRUE(is_plain(c10::impl::GenericList(c10::AnyType::get())));
  c10::impl::GenericList mixed(c10::AnyType::get());
  mixed.push_back(3);
  EXPECT_TRUE(is_plain(mixed));
  mixed.push_back(at::ones({1}));
  EXPECT_FALSE(is_plain(mixed));
  EXPECT_FALSE(is_plain(c10::ivalue::Tuple::create({c10::IValue(1)})));
}

}  // namespace retrace::test::stacks
