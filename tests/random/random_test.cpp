// The parts of the random test themselves: generator, comparison, shrinker.
#include <gtest/gtest.h>

#include <algorithm>

#include <retrace/retrace.h>

#include "check.h"
#include "generate.h"
#include "resize.h"
#include "shrink.h"
#include "support/operators.h"
#include "wild.h"

namespace retrace::random {
namespace {

bool uses(const Program& program, const std::string& op) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [&](const Statement& s) { return s.op == op; });
}

// The first program from `seed` on that has this statement.
Program program_with(const std::string& op, uint64_t seed = 0) {
  for (;; ++seed) {
    const Program program = generate(seed);
    if (uses(program, op)) return program;
  }
}

// A leaf of float 3x3 as value `v`.
Statement leaf(int v, bool requires_grad) { return {"leaf", {}, {v}, {0, 0, requires_grad ? 1 : 0, 17, 3, 3}, {}}; }
Statement region() { return {"region", {}, {}, {kRecomputeAll, 0, 0}, {}}; }
Statement keeping_region() { return {"region", {}, {}, {kKeepAll, 0, 0}, {}}; }
Statement line(std::string op, std::vector<int> in, std::vector<int> out, std::vector<int64_t> ints = {}) {
  return {std::move(op), std::move(in), std::move(out), std::move(ints), {}};
}

TEST(RandomPrograms, AreTheSameForTheSameSeedAndDifferForAnother) {
  EXPECT_EQ(to_text(generate(11)), to_text(generate(11)));
  EXPECT_NE(to_text(generate(11)), to_text(generate(12)));
}

TEST(RandomPrograms, UseEveryOperatorOfTheTable) {
  std::set<std::string> unseen;
  for (const Operator& op : operator_table()) unseen.insert(op.name);
  for (uint64_t seed = 0; seed < 3000 && !unseen.empty(); ++seed) {
    for (const Statement& s : generate(seed).statements) unseen.erase(s.op);
  }
  EXPECT_TRUE(unseen.empty()) << "never used: " << *unseen.begin();
}

TEST(RandomPrograms, RunToTheirEndExceptAFew) {
  int raised = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) raised += run_plain(generate(seed)).thrown.has_value();
  EXPECT_GT(raised, 0);
  EXPECT_LT(raised, 40);
}

TEST(RandomPrograms, MendingTakesOutOnlyTheWriteThatSpoilsBackward) {
  Program program{
      1,
      4,
      {leaf(0, true), line("tanh", {0}, {1}), line("tanh", {1}, {2}), line("scale", {2}, {3}), {}, {}, {}, {}},
      {}};
  program.statements[3].reals = {1.5, 0.5};
  program.statements[4] = line("relu_", {2}, {});  // tanh saved its result
  program.statements[5] = line("relu_", {3}, {});
  program.statements[6] = line("backward", {3}, {}, {0});
  program.statements.pop_back();
  ASSERT_TRUE(run_plain(program).thrown);
  ASSERT_TRUE(remove_bad_writes(program));
  EXPECT_FALSE(run_plain(program).thrown);
  EXPECT_EQ(program.statements.size(), 6u);
  EXPECT_TRUE(uses(program, "relu_"));
}

TEST(Comparison, SeesASingleBitOfAGradient) {
  const Program program = program_with("backward");
  const Outcome plain = run_plain(program);
  Outcome wrong = plain;
  EXPECT_EQ(compare(plain, wrong).verdict, Verdict::same);
  ASSERT_TRUE(perturb_a_gradient(wrong, 5));
  EXPECT_EQ(compare(plain, wrong).verdict, Verdict::different);
}

TEST(Comparison, SeesAGeneratorThatWasDrawnFromOnceMore) {
  const Program program = generate(3);
  const Outcome plain = run_plain(program);
  Outcome wrong = plain;
  wrong.observations.back().content[0] ^= 1;
  EXPECT_NE(compare(plain, wrong).text.find("generator"), std::string::npos);
}

TEST(Comparison, SeesLeakedBytes) {
  const Outcome plain = run_plain(generate(3));
  Outcome leaky = plain;
  leaky.leaked_bytes = 64;
  EXPECT_EQ(compare(plain, leaky).verdict, Verdict::different);
}

TEST(Comparison, SeesAnErrorThatOnlyOneSideRaised) {
  const Outcome plain = run_plain(generate(3));
  Outcome raised = plain;
  raised.thrown = Thrown{3, "c10::Error", "no", false};
  EXPECT_EQ(compare(plain, raised).verdict, Verdict::different);
  EXPECT_EQ(compare(raised, plain).verdict, Verdict::different);
  EXPECT_EQ(compare(raised, raised).verdict, Verdict::both_raised);
}

TEST(Comparison, AllowsARefusalOnlyWhereSomethingWasWrittenOutside) {
  Outcome plain = run_plain(generate(3));
  plain.outside_write = false;
  Outcome refused = plain;
  refused.thrown = Thrown{static_cast<int>(generate(3).statements.size()), "retrace::UsageError", "changed", true};
  EXPECT_EQ(compare(plain, refused).verdict, Verdict::different);
  Outcome with_write = plain;
  with_write.outside_write = true;
  EXPECT_EQ(compare(with_write, refused).verdict, Verdict::refused);
}

TEST(ScopeWatch, OutsideWritesAreThoseOfATensorThatARegionReadFromOutsideOrMayHold) {
  const auto outside_write = [](std::vector<Statement> statements) {
    return run_plain(Program{1, 4, std::move(statements), {}}).outside_write;
  };
  const Statement end{"end", {}, {}, {}, {}};
  const Statement write = line("relu_", {0}, {});
  EXPECT_TRUE(outside_write({leaf(0, false), region(), line("tanh", {0}, {1}), end, write}));
  EXPECT_FALSE(outside_write({leaf(0, false), region(), line("tanh", {0}, {1}), write, end}));
  EXPECT_FALSE(outside_write({leaf(0, false), write, region(), line("tanh", {0}, {1}), end}));
  EXPECT_FALSE(outside_write({leaf(0, false), region(), line("tanh", {0}, {1}), end, line("relu_", {1}, {})}));
  EXPECT_TRUE(outside_write({leaf(0, false), keeping_region(), line("tanh", {0}, {1}), end, line("relu_", {1}, {})}));
  Statement held = line("with_object", {0}, {1});
  held.ints = {1};
  EXPECT_TRUE(outside_write({leaf(0, false), region(), held, end, line("relu_", {1}, {})}));
  const Statement makes = line("tanh", {0}, {1}), backward = line("own_graph", {0}, {2});
  EXPECT_TRUE(outside_write({leaf(0, false), region(), makes, backward, end, line("relu_", {1}, {})}));
}

TEST(Shrinker, KeepsOnlyWhatTheFailureNeeds) {
  const Program program = program_with("sigmoid_");
  const Program small = shrink(program, [](const Program& p) { return uses(p, "sigmoid_"); });
  EXPECT_TRUE(uses(small, "sigmoid_"));
  EXPECT_LE(small.statements.size(), 3u) << to_text(small);
  EXPECT_TRUE(small.held.empty());
}

TEST(Shrinker, LeavesAProgramThatDoesNotFailAsItIs) {
  const Program program = generate(5);
  EXPECT_EQ(to_text(shrink(program, [](const Program&) { return false; })), to_text(program));
}

TEST(Shrinker, KeepsScopesPaired) {
  const Program program = program_with("region");
  for (size_t i = 0; i < program.statements.size(); ++i) {
    int depth = 0;
    for (const Statement& s : without(program, {i}).statements) {
      depth += opens_scope(s) ? 1 : closes_scope(s) ? -1 : 0;
      ASSERT_GE(depth, 0);
    }
    EXPECT_EQ(depth, 0);
  }
}

// The first wild program from `seed` on that has this statement.
Program wild_program_with(const std::string& op, uint64_t seed = 0) {
  for (;; ++seed) {
    const Program program = generate(seed, Mode::wild);
    if (uses(program, op)) return program;
  }
}

size_t variant_called(const std::string& name) {
  const auto& names = variant_names();
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

TEST(WildPrograms, AreTheSameForTheSameSeedAndDifferFromOrdinaryOnes) {
  EXPECT_EQ(to_text(generate(11, Mode::wild)), to_text(generate(11, Mode::wild)));
  EXPECT_NE(to_text(generate(11, Mode::wild)), to_text(generate(11)));
}

TEST(WildPrograms, UseEveryOperatorOfTheirTableAndOrdinaryOnesUseNone) {
  std::set<std::string> unseen;
  for (const Operator& op : wild_table()) unseen.insert(op.name);
  for (uint64_t seed = 0; seed < 1000 && !unseen.empty(); ++seed) {
    for (const Statement& s : generate(seed, Mode::wild).statements) unseen.erase(without_lateness(s.op));
  }
  EXPECT_TRUE(unseen.empty()) << "never used: " << *unseen.begin();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const Statement& s : generate(seed).statements) EXPECT_FALSE(is_wild(s)) << s.op;
  }
}

TEST(WildPrograms, AreFairAndTheirWritesAreCalledWhatTheyAre) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = generate(seed, Mode::wild);
    const Outcome plain = run_plain(program);
    EXPECT_FALSE(plain.unfair) << to_text(program);
    for (const auto& [statement, lateness] : plain.silent_writes)
      EXPECT_LE(lateness, lateness_of(program.statements[static_cast<size_t>(statement)].op)) << to_text(program);
  }
}

TEST(WildPrograms, LeaveLibTorchWithOneThread) {
  run_plain(wild_program_with("threads"));
  EXPECT_EQ(torch::get_num_threads(), 1);
}

TEST(WildPrograms, ShrinkToTheWriteThatMatters) {
  const Program program = wild_program_with("late_pointer_write");
  const Program small = shrink(program, [](const Program& p) { return uses(p, "late_pointer_write"); });
  EXPECT_LE(small.statements.size(), 4u) << to_text(small);
  EXPECT_NE(to_text(small).find("late_pointer_write("), std::string::npos);
}

TEST(SilentWrites, AreLateOnceAnOperatorOfTheScopeHasReadOrSavedTheTensorAndOutsideOnceItHasEnded) {
  const auto lateness = [](std::vector<Statement> statements) {
    return run_plain(Program{1, 4, std::move(statements), {}}).silent_writes.at(0).second;
  };
  const Statement end{"end", {}, {}, {}, {}};
  const auto write = [](int v) { return Statement{"pointer_write", {v}, {}, {0, 0}, {0.5}}; };
  const Statement reads = line("sin", {0}, {1});
  const Statement saves = line("tanh", {0}, {1});
  EXPECT_EQ(lateness({leaf(0, false), write(0), region(), reads, end}), Lateness::fresh);
  EXPECT_EQ(lateness({leaf(0, false), reads, write(0), region(), end}), Lateness::fresh);
  const auto reads_again = [](int v) { return line("cos", {v}, {2}); };
  EXPECT_EQ(lateness({leaf(0, false), region(), reads, write(0), reads_again(0), end}), Lateness::late);
  EXPECT_EQ(lateness({leaf(0, false), region(), reads, write(0), end}), Lateness::outside);  // and dropped
  EXPECT_EQ(lateness({leaf(0, false), region(), reads, end, write(0)}), Lateness::outside);
  EXPECT_EQ(lateness({leaf(0, true), region(), reads, write(1), end}), Lateness::fresh);
  EXPECT_EQ(lateness({leaf(0, true), region(), saves, write(1), reads_again(1), end}), Lateness::late);
}

TEST(WildChecks, SeeAPeakAboveThePlainOne) {
  const Outcome plain = run_plain(generate(3));
  Outcome other = plain;
  EXPECT_TRUE(findings_of(plain, other, {}, true).empty());
  --other.body_peak_bytes;
  EXPECT_TRUE(findings_of(plain, other, {}, false).empty());
  EXPECT_EQ(findings_of(plain, other, {}, true).at(0).fault, Fault::peak_not_plain);
  other.body_peak_bytes += 2;
  EXPECT_EQ(findings_of(plain, other, {}, false).at(0).fault, Fault::peak_above_plain);
  WildChecks lenient;
  lenient.slack_bytes = 1;
  EXPECT_TRUE(findings_of(plain, other, lenient, false).empty());
}

TEST(WildChecks, SeeARefusalThatNamesMoreThanThePlainPeak) {
  const Outcome plain = run_plain(generate(3));
  Outcome other = plain;
  other.smallest_named = plain.body_peak_bytes;
  EXPECT_TRUE(findings_of(plain, other, {}, false).empty());
  ++other.smallest_named;
  EXPECT_EQ(findings_of(plain, other, {}, false).at(0).fault, Fault::smallest);
}

TEST(WildVariants, PutEveryScopeUnderOnePolicyOrTheWholeInOneStep) {
  const Program program{1, 2, {leaf(0, true), keeping_region(), line("sin", {0}, {1}), {"end", {}, {}, {}, {}}}, {}};
  const Program every = as_variant(program, variant_called("every"), {});
  EXPECT_EQ(every.statements[1].ints[kPolicyKind], kEvery);
  EXPECT_EQ(every.statements.size(), program.statements.size());
  const Program percent = as_variant(program, variant_called("100%"), {});
  EXPECT_EQ(percent.statements[1].op, "step");
  EXPECT_EQ(percent.statements[1].ints[kPolicyKind], kBudgetOfFirstStep);
  EXPECT_EQ(percent.statements.size(), program.statements.size() + 2);
}

// The whole chain: a replay that computes something else is noticed, by verify or by the comparison. With x of ones the
// sum of the gradient is the loss, unless the factor was another one when backward asked for it.
TEST(RandomPrograms, NoticeAnOperatorThatDoesNotRepeatItself) {
  const torch::Tensor x = torch::ones({3}).requires_grad_();
  const auto outcomes = [&](auto&& call) {
    const torch::Tensor loss = call([&] { return (test::unstable(x.detach()) * x).sum(); });
    Outcome forward, backward;
    forward.observations = {observe(0, "sum", loss.detach().clone())};
    backward.observations = {observe(0, "sum", torch::autograd::grad({loss}, {x})[0].sum())};
    return std::pair(forward, backward);
  };
  const auto [plain_loss, plain_sum] = outcomes([](auto&& body) { return body(); });
  EXPECT_EQ(compare(plain_loss, plain_sum).verdict, Verdict::same);
  try {
    const auto [loss, sum] = outcomes([](auto&& body) { return retrace::checkpoint(body); });
    EXPECT_EQ(compare(loss, sum).verdict, Verdict::different);
  } catch (const retrace::InternalError&) {
    SUCCEED();  // verify was on and saw it first
  }
}

TEST(RandomShapes, AProgramOfOtherSizesIsTheSameStatementsAndRuns) {
  int with_others = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto programs = in_several_sizes(in_one_step(generate(seed), kBudget, 0), 3);
    for (const Program& program : programs) EXPECT_FALSE(run_plain(program).thrown) << to_text(program);
    with_others += programs.size() > 1;
  }
  EXPECT_GT(with_others, 30);
}

TEST(RandomShapes, ALongerLoopIsFedWithWhatItMade) {
  Program program{0, 2, {leaf(0, true), line("tanh", {0}, {1}), line("backward", {1}, {}, {0})}, {}};
  Dice dice(1);
  const Program longer = with_a_longer_loop(program, dice);
  ASSERT_GT(longer.statements.size(), program.statements.size());
  EXPECT_EQ(longer.statements[2].op, "tanh");
  EXPECT_EQ(longer.statements[2].in, std::vector<int>{1});
  EXPECT_EQ(longer.statements.back().in, longer.statements[longer.statements.size() - 2].out);
  EXPECT_EQ(longer.values, static_cast<int>(longer.statements.size()) - 1);
  EXPECT_FALSE(run_plain(longer).thrown);
}

}  // namespace
}  // namespace retrace::random
