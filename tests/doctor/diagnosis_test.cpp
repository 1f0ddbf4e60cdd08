// What is advised holds: it fits, nothing faster does, and its figures add up.
#include "doctor/diagnosis.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "doctor/published.h"
#include "doctor/tape_diagnosis.h"
#include "plan/solve/plan.h"
#include "synthetic/graphs.h"

namespace retrace::doctor {
namespace {

constexpr int64_t kGi = int64_t{1} << 30;

Diagnosis of(const Description& said, int64_t gib) {
  return diagnose(complete(said), {}, {.bytes = gib * kGi, .reserved = 0, .from = "the device"});
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto points = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    widest = std::max(widest, static_cast<size_t>(points));
  }
  return widest;
}

TEST(Diagnosis, AdvisesTheFastestPolicyThatFits) {
  for (const int64_t gib : {40, 50, 60, 80, 120, 160}) {
    const Diagnosis d = of({.model = "llama3.2-3b", .seq = 8192, .batch = 2}, gib);
    if (!d.advised) continue;
    EXPECT_LE(d.states.total() + d.advised->peak_bytes(), d.memory.usable());
    for (const PolicyCost& cost : d.checkpointing->all()) {
      if (cost.extra >= d.advised->extra) continue;
      EXPECT_GT(d.states.total() + cost.peak_bytes(), d.memory.usable()) << cost.name;
    }
  }
}

TEST(Diagnosis, SaysThatCheckpointingAloneCannotTrain70BOnOneDeviceAndWhatCan) {
  const Diagnosis d = of({.params = 70'000'000'000}, 80);
  EXPECT_FALSE(d.fits);
  EXPECT_FALSE(d.advised);
  EXPECT_EQ(d.reach.batch, 0);
  ASSERT_TRUE(d.smallest.several);
  EXPECT_EQ(d.smallest.several->means.zero_stage, 3);
  // One rank fewer would not do.
  Means fewer = d.smallest.several->means;
  --fewer.ranks;
  EXPECT_FALSE(Options(d.described.model, d.device.balance(), d.memory.usable()).evaluate(fewer).fits);
  for (const auto& option : {d.smallest.all_weights, d.smallest.frozen, d.smallest.several}) {
    ASSERT_TRUE(option);
    EXPECT_LE(option->device_bytes(), d.memory.usable());
  }
  const std::string text = to_text(d);
  for (const char* part :
       {"CHECKPOINTING ALONE CANNOT DO IT", "ZeRO-3 over", "8-bit optimizer state", "LoRA", "to host"}) {
    EXPECT_TRUE(contains(text, part)) << part;
  }
}

TEST(Diagnosis, OfAStepThatFitsHasNothingToPaste) {
  const Diagnosis d = of({.model = "gpt2"}, 80);
  EXPECT_TRUE(d.fits);
  EXPECT_TRUE(contains(to_text(d), "FITS as it is"));
  EXPECT_FALSE(contains(to_text(d), "To paste"));
}

TEST(Diagnosis, TheLargestBatchFitsAndOneMoreDoesNot) {
  const Description said{.model = "gpt2-xl", .seq = 1024};
  const Diagnosis d = of(said, 40);
  ASSERT_GT(d.reach.batch, 1);
  const auto fits = [&](int64_t batch, int64_t seq) {
    Description other = said;
    other.batch = batch;
    other.seq = seq;
    return of(other, 40).advised.has_value();
  };
  EXPECT_TRUE(fits(d.reach.batch, 1024));
  EXPECT_FALSE(fits(d.reach.batch + 1, 1024));
  EXPECT_TRUE(fits(1, d.reach.seq));
  EXPECT_FALSE(fits(1, d.reach.seq + 64));
}

TEST(Diagnosis, EveryPolicyKeepsNoMoreThanTheNextFasterOfItsKind) {
  const Diagnosis d = of({.model = "llama2-13b"}, 80);
  for (int64_t n = 1; n + 1 < d.described.model.layers; ++n) {
    EXPECT_GT(d.checkpointing->cost(PolicyKind::blocks, n).kept_bytes,
              d.checkpointing->cost(PolicyKind::blocks, n + 1).kept_bytes);
  }
}

TEST(Diagnosis, FigureOfOneLayerStandsBesideKorthikantis) {
  const auto figures = beside_published(of({.params = 7'000'000'000, .seq = 8192}, 80));
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_TRUE(contains(figures[0].published, "11.88 GB"));
  EXPECT_TRUE(contains(figures[0].ours, "of their block 11.88 GB"));
  EXPECT_TRUE(contains(figures[2].published, "120 GB to 35 GB"));
}

TEST(DiagnosisText, IsNoWiderThanAHundredColumns) {
  for (const Description& said : {Description{.params = 7'000'000'000, .seq = 8192},
                                  Description{.params = 70'000'000'000, .seq = 131072, .batch = 64},
                                  Description{.model = "gpt3-175b", .attention = "math"}, Description{.model = "gpt2"},
                                  Description{.model = "llama3-405b", .norm = "eager"}}) {
    for (const int64_t gib : {0, 24, 80, 100000}) {
      EXPECT_LE(widest_line(to_text(of(said, gib), {.tensors = true, .published = true})), 100U);
    }
  }
}

TEST(DiagnosisJson, HasTheSameFigures) {
  const Diagnosis d = of({.params = 70'000'000'000}, 80);
  const auto json = nlohmann::json::parse(to_json(d));
  EXPECT_EQ(json["parameters"], 70'553'706'496);
  EXPECT_EQ(json["peak_bytes"], d.plain_bytes());
  EXPECT_FALSE(json["device"]["checkpointing_is_enough"]);
  EXPECT_EQ(json["device"]["smallest"]["several_devices"]["zero_stage"], 3);
}

TEST(TapeDiagnosis, AdvisesWhatFitsAndIsFastest) {
  const plan::Graph graph = plan::synthetic_transformer(6);
  const int64_t plain = plan::plain(graph).peak_bytes, smallest = plan::smallest(graph).peak_bytes;
  const int64_t memory = smallest + (plain - smallest) / 2;
  const TapeDiagnosis d =
      diagnose(graph, {.source = "x.tape", .memory = {.bytes = memory, .reserved = 0, .from = "the device"}});
  EXPECT_FALSE(d.fits());
  const TapeRow* row = d.advised();
  ASSERT_NE(row, nullptr);
  EXPECT_LE(row->peak_bytes, memory);
  for (const TapeRow& other : d.rows) EXPECT_TRUE(!other.fits || other.extra >= row->extra) << other.name;
  EXPECT_TRUE(contains(to_text(d), row->code));
  EXPECT_LE(widest_line(to_text(d)), 100U);
}

TEST(TapeDiagnosis, WithTooLittleMemorySaysTheSmallestAndWhatShardsWouldLeave) {
  const plan::Graph graph = plan::synthetic_transformer(4);
  const int64_t memory = plan::smallest(graph).peak_bytes / 2;
  const TapeDiagnosis d =
      diagnose(graph, {.source = "x.tape", .memory = {.bytes = memory, .reserved = 0, .from = "the device"}});
  EXPECT_EQ(d.advised(), nullptr);
  EXPECT_FALSE(d.means.empty());
  for (const TapeMeans& means : d.means) EXPECT_EQ(means.fits, means.bytes <= memory) << means.name;
  EXPECT_TRUE(contains(to_text(d), "CHECKPOINTING ALONE CANNOT DO IT"));
  EXPECT_EQ(nlohmann::json::parse(to_json(d))["smallest_bytes"], d.smallest_bytes);
}

TEST(TapeDiagnosis, CountsStateThatTheOptimizerHasNotMadeYet) {
  const plan::Graph graph = plan::synthetic_transformer(4);
  const auto with = diagnose(graph, {.source = "x", .optimizer = Optimizer{"adamw", 2, false}});
  const auto without = diagnose(graph, {.source = "x"});
  EXPECT_EQ(with.plain_bytes - without.plain_bytes, with.added_state);
  EXPECT_GE(with.added_state + graph.start_bytes - graph.weight_bytes, 2 * graph.weight_bytes);
}

TEST(TapeDiagnosis, OfTwentyThousandOperatorsIsMade) {
  const plan::Graph one = plan::synthetic_transformer(10);
  const plan::Graph graph = plan::synthetic_transformer(static_cast<int>(20000 * 10 / one.ops.size()) + 20);
  ASSERT_GE(graph.ops.size(), 20000U);
  EXPECT_FALSE(to_text(diagnose(graph, {.source = "x"})).empty());
}

}  // namespace
}  // namespace retrace::doctor
