// From what a person said to a model: gaps are filled and told, contradictions are refused.
#include <gtest/gtest.h>

#include <retrace/errors.h>

#include "doctor/device.h"
#include "doctor/model.h"
#include "doctor/states.h"

namespace retrace::doctor {
namespace {

std::string refusal(const Description& said) {
  try {
    complete(said);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Description issue_example() {
  return {.params = 7'000'000'000,
          .layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn = 14336,
          .vocab = 128'000,
          .seq = 8192,
          .batch = 4,
          .attention = "flash",
          .dtype = "bf16",
          .optimizer = "adamw"};
}

TEST(Description, OfTheSizeAloneIsThePublishedModel) {
  EXPECT_EQ(complete({.params = 7'000'000'000}).model.name, "llama2-7b");
  EXPECT_EQ(complete({.params = 70'000'000'000}).model.name, "llama3-70b");
  EXPECT_EQ(complete({.params = 8'000'000'000}).model.name, "llama3-8b");
  EXPECT_EQ(complete({.params = 124'000'000}).model.name, "gpt2");
  EXPECT_FALSE(complete({.params = 7'000'000'000}).assumed.empty());
  EXPECT_TRUE(contains(refusal({.params = 25'000'000'000}), "--layers"));
}

TEST(Description, WhoseSizeIsRoundedIsTakenAndTold) {
  const Completed completed = complete(issue_example());
  EXPECT_EQ(completed.model.kv_width(), 1024);
  EXPECT_TRUE(completed.assumed.empty());
  ASSERT_EQ(completed.notes.size(), 1U);
  EXPECT_TRUE(contains(completed.notes[0], "8.03 B"));
}

TEST(Description, WhoseSizeCannotBeIsRefused) {
  Description said = issue_example();
  said.params = 70'000'000'000;
  EXPECT_TRUE(contains(refusal(said), "70.00 B")) << refusal(said);
  EXPECT_TRUE(contains(refusal(said), "8.03 B")) << refusal(said);
}

TEST(Description, ThatCannotBeIsRefusedInOneLine) {
  Description heads = issue_example(), kv = heads, zero = heads, huge = heads, none, attention = heads, model;
  heads.heads = 33;
  kv.kv_heads = 5;
  zero.layers = 0;
  huge.seq = int64_t{1} << 50;
  huge.batch = int64_t{1} << 50;
  attention.attention = "flsh";
  model.model = "lama3-8b";
  EXPECT_TRUE(contains(refusal(heads), "--heads 33"));
  EXPECT_TRUE(contains(refusal(kv), "--kv-heads 5"));
  EXPECT_TRUE(contains(refusal(zero), "--layers 0"));
  EXPECT_TRUE(contains(refusal(huge), "2^63"));
  EXPECT_TRUE(contains(refusal(none), "--params"));
  EXPECT_TRUE(contains(refusal(attention), "flash"));
  EXPECT_TRUE(contains(refusal(model), "llama3-8b"));
  for (const Description& said : {heads, kv, zero, huge, none, attention, model}) {
    EXPECT_FALSE(contains(refusal(said), "\n"));
  }
}

TEST(Counts, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(count_of("params", "7B"), 7'000'000'000);
  EXPECT_EQ(count_of("params", "1.5B"), 1'500'000'000);
  EXPECT_EQ(count_of("vocab", "128k"), 128'000);
  EXPECT_EQ(count_of("vocab", "50257"), 50257);
  EXPECT_EQ(count_of("params", "124M"), 124'000'000);
  EXPECT_EQ(count_of("seq", "8k", 1024), 8192);
  for (const char* text : {"", "B", "7X", "1e400", "nan", "7.5", "7 B", "9999999999B"}) {
    EXPECT_THROW(count_of("params", text), UsageError) << text;
  }
}

TEST(States, AreSixteenBytesPerParameterForMixedAdamAndForFloat32) {
  Model model = complete({.model = "llama3-8b"}).model;
  EXPECT_EQ(states(model).total(), 16 * parameters(model).total);
  model.dtype = {"fp32", 4};
  EXPECT_EQ(states(model).total(), 16 * parameters(model).total);
  EXPECT_EQ(per_weight(model).copy, 0);
  model.dtype = {"bf16", 2};
  model.pure = true;
  EXPECT_EQ(states(model).total(), 8 * parameters(model).total);
}

TEST(Devices, AreFoundByNameAndNearOnesSuggested) {
  EXPECT_EQ(device_of("h100").memory_bytes, int64_t{80} << 30);
  try {
    device_of("h10");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(contains(error.what(), "h100"));
  }
}

}  // namespace
}  // namespace retrace::doctor
