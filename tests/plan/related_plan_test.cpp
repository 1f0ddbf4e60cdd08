#include "plan/solve/related_plan.h"

#include <gtest/gtest.h>

namespace {

using namespace retrace::plan;
using Advice = RelatedPlan::Advice;

void add_op(Graph& graph, const char* name, int results = 1) {
  Op op;
  op.name = name;
  for (int i = 0; i < results; ++i) {
    op.fresh.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.emplace_back();
  }
  graph.ops.push_back(op);
}

// An embedding, and then a loop of so many rounds of sin, exp, exp.
Graph loop(int times) {
  Graph graph;
  add_op(graph, "embedding");
  for (int i = 0; i < times; ++i) {
    for (const char* const name : {"sin", "exp", "exp"}) add_op(graph, name);
  }
  return graph;
}

// Of each operator's first result, in the order they run.
std::vector<Advice> advice_on(const Graph& graph, const RelatedPlan& plan) {
  RecentOps recent;
  std::vector<Advice> result;
  for (const Op& op : graph.ops) {
    recent.add(kind_of(name_hash(op.name), op.fresh.size()));
    result.push_back(plan.advice(recent, 0));
  }
  return result;
}

// Holds the first exp of every round and nothing else.
Choices holding_first_exp(const Graph& graph) {
  Choices choices(graph.values.size());
  for (size_t v = 2; v < graph.values.size(); v += 3) choices[v] = Choice::keep();
  return choices;
}

TEST(RelatedPlan, ALoopThatRunsMoreOftenIsAdvisedLikeThePlannedOne) {
  const Graph planned = loop(4);
  const auto advice = advice_on(loop(9), RelatedPlan(planned, holding_first_exp(planned)));
  ASSERT_EQ(advice.size(), 28u);
  for (size_t i = 0; i < advice.size(); ++i) {
    EXPECT_EQ(advice[i], i % 3 == 2 ? Advice::hold : Advice::forget) << i;
  }
}

TEST(RelatedPlan, AnotherBranchInTheMiddleDoesNotChangeWhatFollows) {
  const Graph planned = loop(4);
  Graph other = loop(4);
  Op branch = other.ops[1];
  branch.name = "tanh";
  other.ops.insert(other.ops.begin() + 4, branch);
  const auto advice = advice_on(other, RelatedPlan(planned, holding_first_exp(planned)));
  EXPECT_EQ(advice[4], Advice::none) << "nobody has seen a tanh";
  for (size_t i = 5; i < advice.size(); ++i) {
    EXPECT_EQ(advice[i], (i - 1) % 3 == 2 ? Advice::hold : Advice::forget) << i;
  }
}

TEST(RelatedPlan, MostDecideWhereResultsOfTheSameKindWereTreatedDifferently) {
  const Graph planned = loop(9);
  Choices choices = holding_first_exp(planned);
  choices[11] = Choice::rebuild();
  EXPECT_EQ(advice_on(planned, RelatedPlan(planned, choices))[11], Advice::hold);
  for (const size_t v : {8u, 14u, 17u, 20u}) choices[v] = Choice::rebuild();
  EXPECT_EQ(advice_on(planned, RelatedPlan(planned, choices))[23], Advice::forget);
}

TEST(RelatedPlan, ResultsOfOneOperatorAreToldApart) {
  Graph graph;
  add_op(graph, "lstm", 2);
  const RelatedPlan plan(graph, {Choice::keep(), Choice::rebuild()});
  RecentOps recent;
  recent.add(kind_of(name_hash("lstm"), 2));
  EXPECT_EQ(plan.advice(recent, 0), Advice::hold);
  EXPECT_EQ(plan.advice(recent, 1), Advice::forget);
  EXPECT_EQ(plan.advice(recent, 2), Advice::none);
}

}  // namespace
