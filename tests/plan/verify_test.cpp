// verify() finds what is wrong with a plan.
#include <gtest/gtest.h>

#include <retrace/errors.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    const int64_t budget = Simulator(graph_).run(keep_saved(graph_)).peak_bytes / 2;
    plan_ = *solve(graph_, budget).plan;
  }

  void refuses(const std::function<void(Plan&)>& fault) const {
    Plan faulty = plan_;
    fault(faulty);
    EXPECT_THROW(verify(faulty, graph_), InternalError);
  }

  const Graph graph_ = synthetic_transformer(3);
  Plan plan_;
};

TEST_F(Verify, AcceptsAPlanAsItWasMade) { EXPECT_NO_THROW(verify(plan_, graph_)); }

TEST_F(Verify, FindsAPeakThatIsTooLow) {
  refuses([](Plan& p) { --p.peak_bytes; });
}

TEST_F(Verify, FindsSecondsThatAreTooFew) {
  refuses([](Plan& p) { p.replay_seconds *= 0.9; });
  refuses([](Plan& p) { p.seconds *= 0.9; });
}

TEST_F(Verify, FindsAPeakAboveTheBudget) {
  refuses([](Plan& p) { p.budget_bytes = p.peak_bytes - 1; });
}

TEST_F(Verify, FindsOwnersThatDoNotAddUp) {
  refuses([](Plan& p) { ++p.at_peak.kept; });
}

TEST_F(Verify, FindsABoundAboveThePlan) {
  refuses([](Plan& p) { p.bound_seconds = p.seconds * 1.01; });
  refuses([](Plan& p) { p.bound_seconds = std::numeric_limits<double>::quiet_NaN(); });
}

TEST_F(Verify, FindsAKeptValueThatIsDroppedInstead) {
  refuses([](Plan& p) { *std::find(p.choices.begin(), p.choices.end(), Choice::keep()) = Choice::rebuild(); });
}

TEST_F(Verify, FindsAValueThatCannotBeKept) {
  const std::vector<bool> can = keepable(graph_);
  const auto bad = static_cast<size_t>(std::find(can.begin(), can.end(), false) - can.begin());
  refuses([&](Plan& p) { p.choices[bad] = Choice::keep(); });
}

TEST_F(Verify, FindsAValueHeldInAWayThatItDoesNotHave) {
  refuses([&](Plan& p) {
    for (Choice& choice : p.choices) {
      if (choice == Choice::keep()) choice = Choice::hold(2);
    }
  });
}

TEST_F(Verify, FindsATableOfWaysThatIsNotTrue) {
  refuses([](Plan& p) { ++p.held.at(0).values; });
  refuses([](Plan& p) { p.held.at(1).kind = "shards"; });
  refuses([](Plan& p) { p.held.at(1).lossy = true; });
}

TEST_F(Verify, APlanForAnotherGraphIsTheCallersMistake) {
  EXPECT_THROW(verify(plan_, synthetic_transformer(4)), UsageError);
  Plan shorter = plan_;
  shorter.choices.pop_back();
  EXPECT_THROW(verify(shorter, graph_), UsageError);
}

}  // namespace
}  // namespace retrace::plan
