#include <gtest/gtest.h>

#include <retrace/errors.h>

#include "plan/graph/graph.h"
#include "policy/parse.h"

namespace retrace::test {

plan::Graph tape_of_products() {
  plan::Graph graph;
  for (const char* const name : {"aten::mm", "aten::relu"}) graph.ops.emplace_back().name = name;
  return graph;
}

std::string refusal_of(const std::string& text) {
  try {
    parse_policy(text, tape_of_products());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ParsePolicy, UnderstandsWhatPoliciesCallThemselves) {
  const plan::Graph tape = tape_of_products();
  for (const std::string text : {"keep_all", "recompute_all", "every:1", "every:12", "selective", "budget:40%"}) {
    EXPECT_EQ(parse_policy(text, tape).name(), text);
  }
  EXPECT_EQ(parse_policy("full", tape).name(), "keep_all");
  EXPECT_EQ(parse_policy("selective:aten::mm,aten::relu", tape).name(), "selective");
}

TEST(ParsePolicy, SuggestsTheNearPolicyAndListsAll) {
  const std::string refusal = refusal_of("evry:2");
  EXPECT_NE(refusal.find("did you mean 'every'?"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("recompute_all"), std::string::npos) << refusal;
  EXPECT_EQ(refusal_of("zzzzzzzz").find("did you mean"), std::string::npos);
}

TEST(ParsePolicy, RefusesCountsThatAreNone) {
  for (const std::string text : {"every", "every:", "every:0", "every:-1", "every:two", "every:2x"}) {
    EXPECT_NE(refusal_of(text).find("every:2"), std::string::npos) << text << ": " << refusal_of(text);
  }
}

TEST(ParsePolicy, ChecksOperatorsAgainstTheTape) {
  EXPECT_NE(refusal_of("selective:aten::bmm").find("aten::mm"), std::string::npos);
  EXPECT_NE(refusal_of("selective:").find("names no operator"), std::string::npos);
}

}  // namespace retrace::test
