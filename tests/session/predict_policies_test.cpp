// What a named policy would do is predicted from a tape of one plain step: the peak to the byte, and every operator
// that would be run again.
#include <torch/torch.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>

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

void expect_predicted(const Program& program, std::span<const char* const> policies = kPolicies) {
  const SessionOptions options{.verify = Verify::never};
  const plan::Graph tapes[] = {tape_of(Session(keep_all(), options), program),
                               tape_of(Session(budget("100%"), options), program)};
  for (const char* const policy : policies) {
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

// What a node of a retained graph has is held then, and not the root that it was rebuilt from.
TEST(PredictedPolicies, HoldForARetainedGraph) {
  RETRACE_SKIP_IF_HOSTILE();
  const at::Tensor x = torch::randn({64, 64}).requires_grad_();
  const auto root = [] {
    at::Tensor t = torch::empty({64, 64});
    std::fill_n(t.data_ptr<float>(), t.numel(), 0.5F);
    return t;
  };
  const Program program = [&] {
    x.mutable_grad().reset();
    const at::Tensor loss = (x + root()).to(torch::kDouble).square().sum();
    loss.backward({}, /*retain_graph=*/true);
  };
  const SessionOptions options{.verify = Verify::never};
  plan::Graph tape = tape_of(Session(keep_all(), options), program);
  ASSERT_EQ(tape.ops[0].name, "aten::empty");  // a plain step does not look at what the pointer wrote
  tape.values[plan::at(tape.ops[0].fresh.front())].producer = plan::kNone;
  Session session(recompute_all(), options);
  const Seen seen = step(session, program);
  const plan::Outcome predicted = predict(tape, recompute_all());
  EXPECT_EQ(predicted.peak_bytes, seen.peak_bytes);
  EXPECT_EQ(predicted.ops_replayed, seen.ops_replayed);
}

// What is padded is written part by part into one tensor, which an operator that runs again then reads while it
// allocates.
TEST(PredictedPolicies, HoldForPackedSequences) {
  RETRACE_SKIP_IF_HOSTILE();
  namespace nn = torch::nn;
  constexpr int64_t kSequences = 32, kLength = 8, kTokens = 40, kWidth = 24;
  nn::Embedding embedding(kTokens, kWidth);
  nn::LSTM lstm(nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true));
  nn::Linear head(kWidth, kTokens);
  std::vector<at::Tensor> parameters = lstm->parameters();
  parameters.insert(parameters.end(), {embedding->weight, head->weight, head->bias});
  const auto loss = [&] {
    const at::Tensor tokens = torch::randint(0, kTokens, {kSequences, kLength});
    at::Tensor lengths = torch::randint(3, kLength + 1, {kSequences});
    lengths[0] = kLength;
    lengths = std::get<0>(torch::sort(lengths, 0, /*descending=*/true));
    const auto packed = nn::utils::rnn::pack_padded_sequence(embedding(tokens), lengths, /*batch_first=*/true);
    const auto outputs = std::get<0>(lstm->forward_with_packed_input(packed));
    const at::Tensor scores = head(std::get<0>(nn::utils::rnn::pad_packed_sequence(outputs, /*batch_first=*/true)));
    return nn::functional::cross_entropy(scores.flatten(0, 1), tokens.flatten());
  };
  const Program program = [&] {
    torch::manual_seed(7);
    for (const at::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();
    }
    loss().backward();
  };
  program();
  expect_predicted(program);
}

// Of the gates, which are written in place, one is held as a cut vertex and as a result that is far smaller than what
// it is made from.
TEST(PredictedPolicies, HoldWhereTwoRulesWantTheSameValue) {
  RETRACE_SKIP_IF_HOSTILE();
  namespace nn = torch::nn;
  constexpr int64_t kWords = 30, kSequences = 16, kWidth = 64;
  nn::GRU gru(nn::GRUOptions(kWidth, kWidth));
  const at::Tensor words = torch::randn({kWords, kSequences, kWidth});
  const Program program = [&] {
    for (const at::Tensor& parameter : gru->parameters()) parameter.mutable_grad().reset();
    std::get<0>(gru(words)).square().mean().backward();
  };
  program();
  expect_predicted(program);
}

// What is held between segments is not held for long where nothing in between needs it, and is copied where it is
// written.
TEST(PredictedPolicies, HoldForASimulationInSegments) {
  RETRACE_SKIP_IF_HOSTILE();
  constexpr int64_t kPoints = 96, kSteps = 40;
  const at::Tensor start = torch::rand({kPoints, 3}), stiffness = torch::full({kPoints, 3}, 0.3).requires_grad_();
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place ? "in place" : "fresh states");
    expect_predicted([&] {
      stiffness.mutable_grad().reset();
      at::Tensor position = start.clone(), velocity = torch::zeros({kPoints, 3});
      for (int64_t i = 0; i < kSteps; ++i) {
        const at::Tensor force = stiffness * position.roll(1, 0).sub(position).div(2);
        velocity = in_place ? velocity.mul_(0.99).add_(force) : 0.99 * velocity + force;
        position = in_place ? position.add_(velocity, 0.01) : position + 0.01 * velocity;
      }
      position.square().mean().backward();
    });
  }
}

// Each inner backward goes back to states that the program no longer has, and leaves what it found to the next. Not to
// the byte under selective(), where a node of a retained graph has something until it ends, which is not on the tape.
TEST(PredictedPolicies, HoldFromOneInnerBackwardToTheNext) {
  RETRACE_SKIP_IF_HOSTILE();
  constexpr int64_t kParticles = 48, kWidth = 24, kSteps = 6;
  const at::Tensor w = torch::randn({2, kWidth}).requires_grad_(), v = torch::randn({kWidth, 1}).requires_grad_();
  const at::Tensor start = torch::randn({2, kParticles, 1});
  expect_predicted(
      [&] {
        w.mutable_grad().reset();
        v.mutable_grad().reset();
        at::Tensor q = start[0].clone().requires_grad_(), p = start[1].clone().requires_grad_();
        const auto forces = [&](const at::Tensor& at, const at::Tensor& moving) {
          const at::Tensor total = torch::cat({at, moving}, 1).mm(w).tanh().mm(v).sum();
          return torch::autograd::grad({total}, {at, moving}, {}, /*retain_graph=*/true, /*create_graph=*/true);
        };
        for (int64_t i = 0; i < kSteps; ++i) {
          p = p - 0.05 * forces(q, p)[0];
          q = q + 0.1 * forces(q, p)[1];
        }
        (q.square().mean() + p.square().mean()).backward();
      },
      std::span(kPolicies).first(5));
}

}  // namespace retrace::test::predicted_policies
