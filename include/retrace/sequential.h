// checkpoint_sequential(): a chain of layers in a number of checkpointed segments.
//
//   auto y = retrace::checkpoint_sequential(net, 4, x);     // torch::nn::Sequential, or a container of layers
//
// Segments are balanced (9 layers in 5: 2,2,2,2,1); the last one is checkpointed too. `call(layer, x)` runs one layer.
#pragma once

#include <retrace/cxx20.h>

#include <concepts>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <retrace/checkpoint.h>

namespace retrace {

// Layers per segment. Throws UsageError unless 1 <= segments <= layers.
std::vector<int64_t> balanced_segments(int64_t layers, int64_t segments);

// The same when the bytes each layer holds for backward are known: the largest segment is as small as it can be.
std::vector<int64_t> balanced_segments(std::span<const int64_t> layer_bytes, int64_t segments);

namespace detail {

void check_layer_bytes(int64_t layers, std::span<const int64_t> layer_bytes);  // one entry per layer, or UsageError

struct CallLayer {
  template <class Layer, class X>
  auto operator()(Layer& layer, X x) const {
    static_assert(Callable<Layer&, X>,
                  "checkpoint_sequential cannot tell how to call this layer (a torch::nn::ModuleList knows only "
                  "torch::nn::Module): pass a last argument, "
                  "[](auto& layer, auto x) { return layer->template as<Block>()->forward(x); }");
    return call(layer, std::move(x));
  }
};

template <class Net>
auto& layers_of(Net& net) {
  if constexpr (requires { std::begin(net); }) {
    return net;
  } else {
    return *net;  // a module holder: torch::nn::Sequential, torch::nn::ModuleList
  }
}

template <class Net, class X, class Call>
X run_segments(Net& net, const std::vector<int64_t>& sizes, const CheckpointOptions& options, X x, const Call& call) {
  auto layer = std::begin(layers_of(net));
  for (const int64_t size : sizes) {
    x = checkpoint(
        options,
        [&](X h) {
          for (int64_t i = 0; i < size; ++i, ++layer) h = call(*layer, std::move(h));
          return h;
        },
        std::move(x));
  }
  return x;
}

}  // namespace detail

template <class Net, class X, class Call = detail::CallLayer>
X checkpoint_sequential(Net&& net, int64_t segments, X x, const Call& call = {}) {
  auto& layers = detail::layers_of(net);
  const auto sizes = balanced_segments(std::distance(std::begin(layers), std::end(layers)), segments);
  return detail::run_segments(net, sizes, CheckpointOptions{}, std::move(x), call);
}

// With the bytes of each layer (one entry per layer), segments are balanced by bytes instead of by count.
template <class Net, class X, class Call = detail::CallLayer>
X checkpoint_sequential(Net&& net, int64_t segments, X x, std::span<const int64_t> layer_bytes, const Call& call = {}) {
  auto& layers = detail::layers_of(net);
  detail::check_layer_bytes(std::distance(std::begin(layers), std::end(layers)), layer_bytes);
  return detail::run_segments(net, balanced_segments(layer_bytes, segments), CheckpointOptions{}, std::move(x), call);
}

}  // namespace retrace
