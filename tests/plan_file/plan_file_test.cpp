// Plan files: round trips, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include <retrace/errors.h>

#include "plan/file/file.h"
#include "plan_file/folder.h"

namespace retrace::plan::plan_file_test {
namespace {

using file_test::Folder;

Plan example(size_t values) {
  Plan p;
  p.signature = 0xfedcba9876543210;  // does not fit a double, nor int64
  p.budget_bytes = int64_t{3} << 29;
  p.strategy = "mincut";
  p.held = {{"as it is", 3, 700, 700, false}, {"bits \"of\" it", 4, 20, 640, true}};
  p.peak_bytes = 1'234'567'890'123;
  p.at_peak = {.weights = 1, .gradients = 2, .kept = 3, .rebuilt = 4, .other = -5};
  p.seconds = 0.1 + 0.2;
  p.replay_seconds = 1e-17;
  p.bound_seconds = 0.25;
  p.planning_seconds = 0;
  for (size_t i = 0; i < values; ++i) p.choices.push_back(all_choices(4)[(i * i + i / 7) % 6]);
  return p;
}

void expect_same(const Plan& a, const Plan& b) {
  const auto fields = [](const Plan& p) {
    const Owners& o = p.at_peak;
    return std::tuple(p.signature, p.budget_bytes, p.strategy, p.lossy_values(), p.peak_bytes, o.weights, o.gradients,
                      o.kept, o.rebuilt, o.other, p.seconds, p.replay_seconds, p.bound_seconds, p.planning_seconds);
  };
  EXPECT_EQ(fields(a), fields(b));
  EXPECT_EQ(a.choices, b.choices);
  const auto row = [](const HeldValues& h) { return std::tuple(h.kind, h.values, h.bytes, h.plain_bytes, h.lossy); };
  EXPECT_TRUE(std::ranges::equal(a.held, b.held, {}, row, row));
}

void expect_refused(const std::string& text, const std::string& why) {
  try {
    from_json(text, "a.plan");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("[load_plan] 'a.plan': ")) << what;
    EXPECT_NE(what.find(why), std::string::npos) << what;
  }
}

// The example with one piece of its text replaced.
std::string with(const std::string& piece, const std::string& by) {
  std::string text = to_json(example(3));
  const size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece << " in " << text;
  return text.replace(at, piece.size(), by);
}

TEST(PlanFile, WhatIsSavedIsLoaded) {
  const Folder folder;
  for (const size_t values : {0U, 1U, 99U, 100U, 101U, 1000U}) {
    save(example(values), folder / "a.plan");
    expect_same(example(values), load_plan(folder / "a.plan"));
  }
  EXPECT_EQ(folder.files(), 1U);
}

TEST(PlanFile, CanBeReadByPeople) {
  Plan p = example(0);
  p.choices = {Choice::keep(), Choice::rebuild(), Choice::rebuild_each_time(), Choice::hold(1)};
  const std::string text = to_json(p);
  EXPECT_NE(text.find("\"signature\": \"0xfedcba9876543210\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"budget_bytes\": 1610612736"), std::string::npos) << text;
  EXPECT_NE(text.find("\"keep rebuild rebuild_each_time way1\""), std::string::npos) << text;
}

TEST(PlanFile, TheExampleInTheDocsIsTrue) {
  std::ifstream page(RETRACE_SOURCE_DIR "/docs/plan-format.md");
  std::string text, line;
  while (std::getline(page, line) && line != "```json") {
  }
  while (std::getline(page, line) && line != "```") text += line + "\n";
  EXPECT_EQ(to_json(from_json(text, "docs")), text);
}

TEST(PlanFile, TimesThatAreNotFiniteAreNotSaved) {
  Plan p = example(3);
  p.bound_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(to_json(p), InternalError);
}

TEST(PlanFile, ForeignAndDamagedFilesAreRefused) {
  const std::string whole = to_json(example(3));
  for (size_t size = 0; size + 1 < whole.size(); ++size) expect_refused(whole.substr(0, size), "damaged");
  for (const auto* text : {"[]", "1", "null", "\"retrace_plan\"", "{}", "{\"version\": 1}"}) {
    expect_refused(text, "is not a Retrace plan");
  }
  expect_refused(std::string("\0\xff\xfe", 3), "damaged");
  expect_refused("\"" + std::string(100'000, 'x'), "damaged");
}

TEST(PlanFile, OtherVersionsAreRefusedByName) {
  expect_refused(with("\"retrace_plan\": 2", "\"retrace_plan\": 3"),
                 "is of version 3, and this Retrace reads version 2");
  expect_refused(with("\"retrace_plan\": 2", "\"retrace_plan\": 1"),
                 "is of version 1, and this Retrace reads version 2");
  expect_refused(with("\"retrace_plan\": 2", "\"retrace_plan\": 0"), "version that does not exist");
  expect_refused(with("\"retrace_plan\": 2", "\"retrace_plan\": \"2\""), "version that does not exist");
}

TEST(PlanFile, EveryMemberMustBeThereAndOfItsKind) {
  for (const auto* key : {"signature", "strategy", "budget_bytes", "peak_bytes", "at_peak", "weights", "other",
                          "seconds", "replay_seconds", "bound_seconds", "planning_seconds", "held", "kind", "bytes",
                          "plain_bytes", "lossy", "values", "choices"}) {
    const std::string quoted = "\"" + std::string(key) + "\"";
    expect_refused(with(quoted, "\"x\""), "has no '" + std::string(key) + "'");
    expect_refused(with(quoted, quoted + ": null, \"x\""),
                   std::string(key == std::string("at_peak") ? "weights" : key));
  }
}

TEST(PlanFile, ImpossibleNumbersAreRefused) {
  const std::string budget = "\"budget_bytes\": 1610612736";
  expect_refused(with(budget, "\"budget_bytes\": -1"), "'budget_bytes' is negative");
  expect_refused(with(budget, "\"budget_bytes\": 1.5"), "'budget_bytes' is not a number of bytes");
  expect_refused(with(budget, "\"budget_bytes\": 9223372036854775808"), "'budget_bytes' is not a number of bytes");
  expect_refused(with("\"bound_seconds\": 0.25", "\"bound_seconds\": -0.25"),
                 "'bound_seconds' is not a number of seconds");
  expect_refused(with("\"bound_seconds\": 0.25", "\"bound_seconds\": 1e999"), "damaged");
  expect_refused(with("\"bound_seconds\": 0.25", "\"bound_seconds\": NaN"), "damaged");
  expect_refused(with("0xfedcba9876543210", "0xfedcba98765432100"), "hexadecimal number of 64 bits");
  expect_refused(with("0xfedcba9876543210", "0x"), "hexadecimal");
  expect_refused(with("0xfedcba9876543210", "0x12 "), "hexadecimal");
}

TEST(PlanFile, ChoicesMustBeWordsAndAsManyAsSaid) {
  Plan p = example(0);
  p.choices = {Choice::keep(), Choice::hold(3)};
  const std::string text = to_json(p), whole = "\"keep way3\"";
  const auto changed = [&](const std::string& by) {
    return std::string(text).replace(text.find(whole), whole.size(), by);
  };
  EXPECT_NO_THROW(from_json(changed("\"keep\", \"way3\""), "a.plan"));
  for (const auto* word : {"k", "way", "way0", "way-1", "way65", "way1x", "way99999999999", " keep"})
    expect_refused(changed("\"keep " + std::string(word) + "\""), "a word that is none of");
  expect_refused(changed("\"keep way3 keep\""), "3 words");
  expect_refused(changed("7"), "not text");
}

TEST(PlanFile, DeepNestingIsRefusedBeforeItIsBuilt) {
  expect_refused(std::string(1'000'000, '['), "nested too deep");
  expect_refused("{\"a\":" + std::string(1'000'000, '['), "nested too deep");
}

}  // namespace
}  // namespace retrace::plan::plan_file_test
