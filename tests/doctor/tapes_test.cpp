// The doctor's arithmetic against steps that ran: our gpt, and a Llama-like model written out in LibTorch.
#include <torch/torch.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <models/gpt.h>
#include <retrace/retrace.h>

#include "doctor/checkpointing.h"
#include "doctor/states.h"
#include "doctor/tape_facts.h"
#include "doctor/two_tapes.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "policy/predict.h"

namespace retrace::test::doctor_tapes {

using namespace retrace::doctor;
constexpr double kNear = 0.02;

// The second step's tape: the first one makes the gradients, as a training loop that zeroes them has them.
plan::Graph recorded(const std::function<at::Tensor()>& loss) {
  Session session(keep_all(), {.verify = Verify::never});
  for (int i = 0; i < 2; ++i) {
    auto step = session.step();
    loss().backward();
  }
  const std::string path = "/tmp/retrace-doctor-" + std::to_string(getpid()) + ".tape";
  session.save_tape(path);
  plan::Graph graph = plan::load_graph(path);
  std::remove(path.c_str());
  return graph;
}

struct GptCase {
  models::GptShape shape;
  int64_t vocab;
};

Model described(const GptCase& c) {
  Model model;
  model.family = Family::gpt;
  model.attention = Attention::math;
  model.float_masks = true;
  model.dtype = {"fp32", 4};
  model.layers = c.shape.blocks;
  model.hidden = c.shape.width;
  model.heads = model.kv_heads = c.shape.heads;
  model.ffn = 4 * c.shape.width;
  model.vocab = c.vocab;
  model.seq = c.shape.length;
  model.batch = c.shape.batch;
  return model;
}

plan::Graph recorded_gpt(const GptCase& c) {
  auto gpt = models::make_text_gpt(c.shape, c.vocab);
  const auto options = torch::TensorOptions(torch::kLong);
  gpt.feed(torch::randint(c.vocab, {c.shape.batch, c.shape.length}, options),
           torch::randint(c.vocab, {c.shape.batch, c.shape.length}, options));
  return recorded([&] { return gpt.model.loss(); });
}

int64_t all_saved(const Model& model) {
  const Checkpointing c(model);
  return times(saved_bytes(c.block()), model.layers) + saved_bytes(c.embedding()) + saved_bytes(c.head());
}

const std::vector<GptCase>& gpt_cases() {
  static const std::vector<GptCase> cases = {
      {{.batch = 2, .length = 32, .width = 64, .heads = 4, .blocks = 2}, 65},
      {{.batch = 1, .length = 128, .width = 32, .heads = 8, .blocks = 3}, 65},   // scores dominate
      {{.batch = 5, .length = 16, .width = 96, .heads = 2, .blocks = 4}, 65},    // width dominates
      {{.batch = 3, .length = 24, .width = 48, .heads = 3, .blocks = 1}, 2000},  // logits dominate
      {{.batch = 4, .length = 64, .width = 128, .heads = 4, .blocks = 6}, 300},
  };
  return cases;
}

TEST(DoctorOnTapes, ActivationBytesOfOurGptAreWithinTwoPercent) {
  for (const GptCase& c : gpt_cases()) {
    const double real = static_cast<double>(facts_of(recorded_gpt(c)).activations);
    EXPECT_NEAR(static_cast<double>(all_saved(described(c))) / real, 1, kNear)
        << "batch " << c.shape.batch << " length " << c.shape.length << " width " << c.shape.width << " real " << real;
  }
}

TEST(DoctorOnTapes, ParametersOfOurGptAreCountedExactly) {
  for (const GptCase& c : gpt_cases()) {
    int64_t count = 0;
    for (const at::Tensor& weight : models::make_text_gpt(c.shape, c.vocab).model.parameters) count += weight.numel();
    EXPECT_EQ(parameters(described(c)).total, count);
  }
}

TEST(DoctorOnTapes, PeakOfThePlainStepIsPredicted) {
  for (const GptCase& c : gpt_cases()) {
    const plan::Graph graph = recorded_gpt(c);
    const Model model = described(c);
    const TapeFacts facts = facts_of(graph);
    // Masks and tokens are live before the step, and no part of the arithmetic.
    const int64_t outside = graph.start_bytes;
    const double real = static_cast<double>(plan::plain(graph).peak_bytes - outside);
    const double ours = static_cast<double>(Checkpointing(model).cost(PolicyKind::keep_all).peak_bytes());
    EXPECT_NEAR(ours / real, 1, 0.05) << "real " << real << " activations " << facts.activations;
  }
}

}  // namespace retrace::test::doctor_tapes
