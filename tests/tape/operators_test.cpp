// What the tables say about operators agrees with what the dispatcher has.
#include "tape/operators.h"

#include <gtest/gtest.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>

namespace retrace::test::operators {

// All overloads of an operator that this LibTorch registers.
std::vector<c10::OperatorHandle> overloads_of(const std::string& name) {
  std::vector<c10::OperatorHandle> found;
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (each.name != name) continue;
    if (const auto handle = c10::Dispatcher::singleton().findSchema(each)) found.push_back(*handle);
  }
  return found;
}

std::set<std::string> silently_written(const c10::OperatorHandle& op) {
  std::set<std::string> names;
  for (const int at : traits_of(op).silent_writes)
    names.insert(op.schema().arguments()[static_cast<size_t>(at)].name());
  return names;
}

TEST(SilentWrites, EveryOperatorOfTheTableIsRegistered) {
  for (const std::string& name : silent_operators()) EXPECT_FALSE(overloads_of(name).empty()) << name;
}

TEST(SilentWrites, TheArgumentsAreTensorsOfTheSchemaAndTheConditionIsABool) {
  for (const std::string& name : silent_operators()) {
    for (const c10::OperatorHandle& op : overloads_of(name)) {
      const OpTraits& traits = traits_of(op);
      EXPECT_FALSE(traits.silent_writes.empty()) << op.schema();
      for (const int at : traits.silent_writes) {
        const c10::Argument& argument = op.schema().arguments()[static_cast<size_t>(at)];
        EXPECT_NE(argument.type()->str().find("Tensor"), std::string::npos) << op.schema();
      }
      if (traits.silent_when < 0) continue;
      EXPECT_EQ(op.schema().arguments()[static_cast<size_t>(traits.silent_when)].type()->str(), "bool") << op.schema();
    }
  }
}

TEST(SilentWrites, BatchNormOfEveryBackendWritesItsStatisticsInTraining) {
  for (const char* const name : {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"}) {
    for (const c10::OperatorHandle& op : overloads_of(name)) {
      EXPECT_EQ(silently_written(op), (std::set<std::string>{"running_mean", "running_var"})) << op.schema();
      EXPECT_EQ(traits_of(op).silent_when, op.schema().argumentIndexWithName("training")) << op.schema();
    }
  }
}

TEST(SilentWrites, RecurrentLayersOfDevicesAdvanceTheirDropoutState) {
  for (const char* const name : {"aten::_cudnn_rnn", "aten::miopen_rnn"}) {
    for (const c10::OperatorHandle& op : overloads_of(name)) {
      EXPECT_EQ(silently_written(op), std::set<std::string>{"dropout_state"}) << op.schema();
      EXPECT_EQ(traits_of(op).silent_when, op.schema().argumentIndexWithName("train")) << op.schema();
    }
  }
}

}  // namespace retrace::test::operators
