// Checkpointed<Impl>: a module that checkpoints itself and is otherwise the module it wraps.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <sstream>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::wrapper {

using torch::Tensor;

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(int64_t width) : up_(width, 2 * width), down_(2 * width, width), norm_(width) {
    register_module("up", up_);
    register_module("down", down_);
    register_module("norm", norm_);
  }
  Tensor forward(Tensor x) { return x + down_(norm_(up_(x).tanh().narrow(1, 0, x.size(1))).repeat({1, 2})); }

 private:
  torch::nn::Linear up_, down_;
  torch::nn::BatchNorm1d norm_;
};

template <class Block>
class NetImpl : public torch::nn::Module {
 public:
  explicit NetImpl(int64_t width) : first_(std::make_shared<Block>(width)), second_(std::make_shared<Block>(width)) {
    register_module("first", first_);
    register_module("second", second_);
  }
  Tensor forward(Tensor x) { return second_->forward(first_->forward(x)); }

 private:
  std::shared_ptr<Block> first_, second_;
};

using PlainNet = NetImpl<BlockImpl>;
using WrappedNet = NetImpl<Checkpointed<BlockImpl>>;

template <class Net>
Tensors train(Net& net) {
  auto x = torch::randn({6, 5}).requires_grad_();
  auto y = net.forward(x);
  y.square().mean().backward();
  Tensors results = {y, x.grad()};
  for (auto& p : net.parameters()) results.push_back(p.grad());
  for (auto& b : net.buffers()) results.push_back(b);
  return results;
}

TEST(Wrapper, InstalledOnASubmoduleGivesTheGradientsOfAnUntouchedOne) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        if (wrap.how() == How::plain) {
          PlainNet net(5);
          return train(net);
        }
        WrappedNet net(5);
        return train(net);
      },
      {How::checkpoint, How::session_recompute_all});
}

TEST(Wrapper, KeepsNothingOfTheInside) {
  constexpr int64_t kRows = 128, kWidth = 16;
  torch::manual_seed(1);
  PlainNet plain(kWidth);
  torch::manual_seed(1);
  WrappedNet wrapped(kWidth);
  auto x = torch::randn({kRows, kWidth});
  const auto live_after_forward = [&](auto& net) {
    const LiveDelta live;
    auto y = net.forward(x);
    return live.bytes();
  };
  // The stream between the blocks, y, and the small statistics BatchNorm had before the step.
  EXPECT_LT(live_after_forward(wrapped), 3 * kRows * kWidth * 4);
  EXPECT_GT(live_after_forward(plain), 8 * kRows * kWidth * 4);
}

TEST(Wrapper, HasThePeakOfTheFunctionalForm) {
  torch::manual_seed(1);
  PlainNet plain(16);
  torch::manual_seed(1);
  WrappedNet wrapped(16);
  auto x = torch::randn({128, 16}).requires_grad_();
  const auto wrapped_peak = peak_above_start([&] { wrapped.forward(x).sum().backward(); });
  x.mutable_grad() = Tensor();
  const auto functional_peak = peak_above_start([&] {
    auto blocks = plain.children();
    Tensor y = x;
    for (auto& block : blocks) y = checkpoint([&](Tensor t) { return block->as<BlockImpl>()->forward(t); }, y);
    y.sum().backward();
  });
  EXPECT_EQ(wrapped_peak, functional_peak);
}

TEST(Wrapper, ParameterNamesAreThoseOfThePlainModule) {
  PlainNet plain(5);
  WrappedNet wrapped(5);
  EXPECT_EQ(plain.named_parameters().keys(), wrapped.named_parameters().keys());
  EXPECT_EQ(plain.named_buffers().keys(), wrapped.named_buffers().keys());
}

template <class From, class To>
void expect_state_loads(From& from, To& to) {
  std::stringstream file;
  torch::serialize::OutputArchive out;
  from.save(out);
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  to.load(in);
  EXPECT_SAME_BITS(from.parameters(), to.parameters());
  EXPECT_SAME_BITS(from.buffers(), to.buffers());
}

TEST(Wrapper, StateLoadsIntoThePlainModuleAndBack) {
  PlainNet plain(5), other(5);
  WrappedNet wrapped(5);
  train(wrapped);
  expect_state_loads(wrapped, plain);
  train(other);
  expect_state_loads(other, wrapped);
}

TEST(Wrapper, FitsInASequential) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        torch::nn::Sequential net;
        if (wrap.how() == How::plain) {
          net->push_back(BlockImpl(5));
          net->push_back(BlockImpl(5));
        } else {
          net->push_back(Checkpointed<BlockImpl>(5));
          net->push_back(Checkpointed<BlockImpl>(5));
        }
        return train(*net);
      },
      {How::checkpoint});
}

class ScalerImpl : public torch::nn::Module {
 public:
  ScalerImpl() { scale_ = register_parameter("scale", torch::ones({})); }
  Tensor forward(const Tensor& x, double by) const { return (x * scale_ * by).exp(); }

 private:
  Tensor scale_;
};

TEST(Wrapper, WrapsAConstForwardOfSeveralArguments) {
  auto x = torch::randn({3});
  ScalerImpl plain;
  Checkpointed<ScalerImpl> wrapped;
  plain.forward(x, 2.0).sum().backward();
  wrapped.forward(x, 2.0).sum().backward();
  EXPECT_SAME_BITS(plain.parameters()[0].grad(), wrapped.parameters()[0].grad());
}

}  // namespace retrace::test::wrapper
