// What a named policy would do is predicted from a tape of one plain step: the peak to the byte, and every operator that
// would be run again.
#include <torch/torch.h>

#include <unistd.h>

#include <filesystem>

#include <models/models.h>
#include <retrace/retrace.h>

#include "plan/file/file.h"
#include "policy/parse.h"
#include "policy/predict.h"
#include "support/hostile.h"

namespace retrace::test::predicted_policies {

constexpr const char* kPolicies[] = {"keep_all", "recompute_all", "every:1", "every:2", "every:4", "selective"};

struct Seen {
  int64_t peak_bytes = 0, ops_replayed = 0;
};

using Program = std::function<void()>;

Seen step(Session& session, const Program& program) {
  Seen seen;
  memory::reset_peak();
  {
    const auto step = session.step();
    program();
    seen.peak_bytes = memory::peak_bytes();
  }
  seen.ops_replayed = session.stats().ops_replayed;
  return seen;
}

plan::Graph tape_of(Session session, const Program& program) {
  step(session, program);
  const auto path = std::filesystem::temp_directory_path() / ("retrace_policies_" + std::to_string(::getpid()));
  session.save_tape(path.string());
  plan::Graph graph = plan::load_graph(path.string());
  std::filesystem::remove(path);
  return graph;
}

void expect_predicted(const Program& program) {
  const SessionOptions options{.verify = Verify::never};
  const plan::Graph tapes[] = {tape_of(Session(keep_all(), options), program),
                               tape_of(Session(budget("100%"), options), program)};
  for (const char* const policy : kPolicies) {
    Session session(parse_policy(policy, [](const auto& operators) { return selective(operators); }), options);
    step(session, program);
    const Seen seen = step(session, program);
    for (const plan::Graph& tape : tapes) {
      SCOPED_TRACE(std::string(policy) + ", from a tape of " + (&tape == tapes ? "keep_all" : "100 %"));
      const plan::Outcome predicted = predict(tape, parse_policy(policy, tape));
      EXPECT_EQ(predicted.peak_bytes, seen.peak_bytes);
      EXPECT_EQ(predicted.ops_replayed, seen.ops_replayed);
      EXPECT_EQ(predicted.at_peak.total(), predicted.peak_bytes);
      EXPECT_EQ(*std::max_element(predicted.event_peaks.begin(), predicted.event_peaks.end()), predicted.peak_bytes);
    }
  }
}

class EveryPolicy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, EveryPolicy, ::testing::ValuesIn(models::names()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryPolicy, TakesWhatWasPredictedFromAPlainStep) {
  RETRACE_SKIP_IF_HOSTILE();
  const models::Model model = models::make_model(GetParam(), models::Size::test);
  expect_predicted([&] {
    for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
    model.loss().backward();
  });
  for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
}

}  // namespace retrace::test::predicted_policies
