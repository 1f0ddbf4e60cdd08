// Every model × every policy × two optimizers: losses, gradients, buffers and the generator's state equal to the plain
// run, bit for bit, over several steps.
#include <torch/torch.h>

#include <models/models.h>
#include <retrace/retrace.h>

#include "support/compat.h"
#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::model_matrix {

using models::Model;
using torch::Tensor;

constexpr int kSteps = 4;

// How one step computes its loss: plain, under a session, or in checkpointed segments.
struct Variant {
  std::string name;
  std::optional<Policy> policy = std::nullopt;
  int64_t segments = 0;
};

std::vector<Variant> variants_of(const Model& model) {
  std::vector<Variant> all;
  for (const auto& policy : {keep_all(), recompute_all(), every(1), every(2), selective()}) {
    all.push_back({policy.name(), policy});
  }
  const auto layers = static_cast<int64_t>(model.layers.size());
  for (const int64_t segments : {int64_t{1}, int64_t{2}, layers}) {
    if (segments <= layers) all.push_back({"sequential:" + std::to_string(segments), std::nullopt, segments});
  }
  return all;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const Model& model) {
  if (name == "adam") return std::make_unique<torch::optim::Adam>(model.parameters, torch::optim::AdamOptions(1e-3));
  return std::make_unique<torch::optim::SGD>(model.parameters, torch::optim::SGDOptions(0.01).momentum(0.9));
}

Tensor loss_of(Model& model, const Variant& variant) {
  if (variant.segments == 0) return model.loss();
  return model.tail(checkpoint_sequential(model.layers, variant.segments, model.input()));
}

struct Trained {
  Tensors seen;      // per step: loss, gradients, buffers; then weights and the generator
  int64_t peak = 0;  // activation bytes of the last forward and backward
  Stats session;
  int64_t replayed = 0, recorded = 0, dropped = 0;
};

void train_step(Model& model, const Variant& variant, torch::optim::Optimizer& optimizer, Trained& trained) {
  optimizer.zero_grad();
  memory::reset_peak();
  const StatsDelta delta;
  const int64_t start = memory::activation_peak_bytes();
  auto loss = loss_of(model, variant);
  loss.backward();
  trained.peak = memory::activation_peak_bytes() - start;
  trained.replayed = delta.replayed();
  trained.recorded = delta.recorded();
  trained.dropped = delta.dropped();
  trained.seen.push_back(loss.detach().clone());
  for (const auto& p : model.parameters) trained.seen.push_back(p.grad().defined() ? p.grad().clone() : Tensor());
  optimizer.step();
  for (const auto& b : model.buffers) trained.seen.push_back(b.clone());
}

Trained train(const std::string& name, const Variant& variant, const std::string& optimizer_name) {
  Model model = models::make_model(name, models::Size::test);
  const auto optimizer = make_optimizer(optimizer_name, model);
  const memory::Watch watch(model.parameters);
  torch::manual_seed(7);
  Trained trained;
  std::optional<Session> session;
  if (variant.policy) session.emplace(*variant.policy);
  for (int i = 0; i < kSteps; ++i) {
    if (session) {
      const auto step = session->step();
      train_step(model, variant, *optimizer, trained);
      trained.session = session->stats();
    } else {
      train_step(model, variant, *optimizer, trained);
    }
  }
  for (const auto& p : model.parameters) trained.seen.push_back(p.detach().clone());
  trained.seen.push_back(generator_state());
  return trained;
}

class Models : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::string model_name() const { return std::get<0>(GetParam()); }
  std::string optimizer_name() const { return std::get<1>(GetParam()); }
  Trained train(const Variant& variant) const { return model_matrix::train(model_name(), variant, optimizer_name()); }
  std::vector<Variant> variants() const { return variants_of(models::make_model(model_name(), models::Size::test)); }
};

TEST_P(Models, TrainThePlainWeightsUnderEveryPolicy) {
  const auto plain = train({"plain"});
  for (const auto& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const NothingLeaks nothing_leaks;
    EXPECT_SAME_BITS(plain.seen, train(variant).seen);
  }
}

TEST_P(Models, ThePlainRunIsRepeatable) {
  // If this fails, the comparisons of the other tests mean nothing.
  const auto first = train({"plain"}), second = train({"plain"});
  EXPECT_SAME_BITS(first.seen, second.seen);
  EXPECT_EQ(first.replayed, 0);
  EXPECT_EQ(first.recorded, 0);
}

TEST_P(Models, ReplayWhatTheyDropAndNoMoreOftenThanPromised) {
  for (const auto& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const auto trained = train(variant);
    EXPECT_GT(trained.recorded, 0);
    if (trained.dropped == 0) {
      EXPECT_EQ(trained.replayed, 0);
    } else {
      EXPECT_GT(trained.replayed, 0);
    }
    // Where cut vertices are missing, every() rebuilds in segments, too.
    const bool lacks_cuts = model_name() == "unet" || model_name() == "lstm";
    const bool in_segments =
        variant.name == "recompute_all" || hostile() || (lacks_cuts && variant.name.starts_with("every"));
    const int64_t per_op = variant.segments == 0 && in_segments ? 2 : 1;
    EXPECT_LE(trained.replayed, per_op * trained.recorded);
    if (variant.name == "keep_all" && !hostile()) {
      EXPECT_EQ(trained.dropped, 0);
    }
    if (variant.name == "recompute_all") {
      EXPECT_GT(trained.dropped, 0);
    }
    if (variant.policy) {
      EXPECT_EQ(trained.session.ops_replayed, trained.replayed);
      EXPECT_EQ(trained.session.steps, kSteps);
    }
  }
}

TEST_P(Models, KeepingEverythingHasThePlainPeak) {
  RETRACE_SKIP_IF_HOSTILE();
  EXPECT_EQ(train({keep_all().name(), keep_all()}).peak, train({"plain"}).peak);
}

TEST_P(Models, CutVerticesAloneNeverCostMoreThanThePlainPeak) {
  const auto plain = train({"plain"});
  for (const auto& policy : {recompute_all(), every(1), every(2)}) {
    const auto ours = train({policy.name(), policy});
    EXPECT_LE(ours.peak, plain.peak) << policy.name();
    if (ours.replayed > 0 && model_name() != "lstm") {  // nearly all of that is one layer, with no cut in it
      EXPECT_LT(ours.peak, plain.peak) << policy.name();
    }
  }
}

// What lies inside a block outweighs what a policy keeps between blocks: then every policy that drops must pay. In the
// mlp the stream between layers is all there is, and nearly all of the lstm is one layer.
TEST_P(Models, PeakIsBelowPlainWhereThePolicyDrops) {
  if (model_name() == "mlp" || model_name() == "lstm") GTEST_SKIP() << "its blocks have no inside worth dropping";
  const auto plain = train({"plain"});
  for (const auto& variant : variants()) {
    if (variant.name == "keep_all" || variant.segments == 1) continue;  // one segment is rebuilt in one piece
    EXPECT_LT(train(variant).peak, plain.peak) << variant.name;
  }
}

TEST_P(Models, OneSegmentCostsNoMoreThanThePlainPeakAndTheStatisticsBeforeTheStep) {
  int64_t buffers = 0;
  for (const auto& b : models::make_model(model_name(), models::Size::test).buffers) {
    buffers += static_cast<int64_t>(b.nbytes());
  }
  EXPECT_LE(train({"sequential:1", std::nullopt, 1}).peak, train({"plain"}).peak + buffers);
}

TEST(ModelCounts, TheMlpReplaysExactlyWhatItMust) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto replayed = [](const Variant& variant) { return train("mlp", variant, "sgd").replayed; };
  // linear, relu, linear, relu, linear. A relu saves its result, a linear layer its input.
  EXPECT_EQ(replayed({"keep_all", keep_all()}), 0);
  EXPECT_EQ(replayed({"selective", selective()}), 0);         // the relus' results are held instead of the products
  EXPECT_EQ(replayed({"every:1", every(1)}), 0);              // both relus are cut vertices
  EXPECT_EQ(replayed({"sequential:1", std::nullopt, 1}), 4);  // all but the last layer
  // linear and relu; the other relu's result is held instead of its segment's input
  EXPECT_EQ(replayed({"sequential:2", std::nullopt, 2}), 2);
  EXPECT_EQ(replayed({"sequential:5", std::nullopt, 5}), 2);  // the relus, each from its segment's input
}

std::string test_name(const ::testing::TestParamInfo<Models::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         ::testing::Combine(::testing::ValuesIn(models::names()), ::testing::Values("sgd", "adam")),
                         test_name);

}  // namespace retrace::test::model_matrix
