// The table of a block, its formulas, and counts of published models.
#include "doctor/block.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include <retrace/errors.h>

#include "doctor/checkpointing.h"
#include "doctor/states.h"

namespace retrace::doctor {
namespace {

Model published(const std::string& name) {
  for (const Model& model : published_models()) {
    if (model.name == name) return model;
  }
  ADD_FAILURE() << name;
  return {};
}

Model gpt_with_scores(int64_t layers, int64_t hidden, int64_t heads, int64_t seq, int64_t batch) {
  Model model;
  model.family = Family::gpt;
  model.attention = Attention::math;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.ffn = 4 * hidden;
  model.vocab = 50257;
  model.seq = seq;
  model.batch = batch;
  return model;
}

TEST(Parameters, AreThoseOfThePublishedModels) {
  EXPECT_EQ(parameters(published("gpt2")).total, 124'439'808);
  EXPECT_EQ(parameters(published("gpt2-xl")).total, 1'557'611'200);
  EXPECT_EQ(parameters(published("llama2-7b")).total, 6'738'415'616);
  EXPECT_EQ(parameters(published("llama2-13b")).total, 13'015'864'320);
  EXPECT_EQ(parameters(published("llama3-8b")).total, 8'030'261'248);
  EXPECT_EQ(parameters(published("llama3-70b")).total, 70'553'706'496);
  EXPECT_EQ(parameters(published("llama3.2-1b")).total, 1'235'814'400);
}

// Korthikanti et al. 2022, equation 2, for 16-bit GPT blocks with dropout. They leave out the norms' statistics.
TEST(BlockTable, IsKorthikantisFormulaForHisBlock) {
  for (const auto& [hidden, heads, seq, batch] :
       {std::array<int64_t, 4>{4096, 32, 2048, 1}, {6144, 64, 2048, 4}, {12288, 96, 2048, 1}, {64, 4, 4096, 3}}) {
    const int64_t s = seq, b = batch, h = hidden, a = heads;
    const Table table = block_table(gpt_with_scores(4, h, a, s, b));
    const int64_t statistics = 2 * 2 * s * b * 4;
    EXPECT_EQ(saved_bytes(table), 34 * s * b * h + 5 * a * s * s * b + statistics);
  }
}

TEST(BlockTable, OfAFlashLlamaHasNoTermInTheSquareOfTheSequence) {
  Model model = published("llama3-8b");
  model.seq = 1024;
  const int64_t once = saved_bytes(block_table(model));
  model.seq = 4096;
  EXPECT_EQ(saved_bytes(block_table(model)), 4 * once);
}

TEST(BlockTable, CheckpointingABlockDoesNotRepeatItsLastProduct) {
  const Table table = block_table(published("llama3-8b"));
  const Rebuild alone = rebuild(table, {"x"});
  EXPECT_EQ(std::count(alone.made.begin(), alone.made.end(), "down"), 0);
  EXPECT_EQ(std::count(alone.made.begin(), alone.made.end(), "gated"), 1);
  EXPECT_EQ(alone.bytes, saved_bytes(table) - find(table, "x").bytes);
  const Rebuild inner = rebuild(table, {"x"}, "next");
  EXPECT_EQ(std::count(inner.made.begin(), inner.made.end(), "down"), 1);
}

TEST(BlockTable, KeepingProductsRepeatsNoProduct) {
  for (Model model : {published("llama3-8b"), gpt_with_scores(4, 1024, 16, 512, 2)}) {
    const Table table = block_table(model);
    std::vector<std::string> products;
    for (const Tensor& tensor : table) {
      if (tensor.product) products.push_back(tensor.name);
    }
    for (const std::string& made : rebuild(table, products, "next").made)
      EXPECT_FALSE(find(table, made).product) << made;
  }
}

TEST(BlockTable, EveryTensorItReadsStandsBeforeIt) {
  for (const Family family : {Family::llama, Family::gpt}) {
    for (const Attention attention : {Attention::flash, Attention::math}) {
      for (const Norm norm : {Norm::fused, Norm::eager}) {
        Model model = gpt_with_scores(2, 64, 4, 16, 2);
        model.family = family;
        model.attention = attention;
        model.norm = norm;
        const Table table = block_table(model);
        for (size_t i = 0; i < table.size(); ++i) {
          for (const std::string& from : table[i].from) {
            const auto stands =
                std::find_if(table.begin(), table.end(), [&](const Tensor& t) { return t.name == from; });
            EXPECT_LT(stands - table.begin(), static_cast<ptrdiff_t>(i)) << table[i].name << " reads " << from;
          }
        }
      }
    }
  }
}

TEST(Formula, IsEvaluatedExactlyAndRefusesToOverflow) {
  Symbols symbols;
  symbols.set('t', 3);
  symbols.set('h', 7);
  EXPECT_EQ(evaluate("2*t*h", symbols), 42);
  EXPECT_EQ(evaluate("t", symbols), 3);
  EXPECT_EQ(pretty("2*t*h"), "2·t·h");
  EXPECT_THROW(evaluate("t*V", symbols), InternalError);
  symbols.set('h', INT64_MAX / 2);
  EXPECT_THROW(evaluate("t*h", symbols), UsageError);
}

}  // namespace
}  // namespace retrace::doctor
