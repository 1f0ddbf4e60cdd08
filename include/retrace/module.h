// Checkpointed<BlockImpl>: a BlockImpl that checkpoints its own forward(). Its parameters have the same names, so its
// saved state loads into a plain BlockImpl, and back.
//
//   auto block = register_module("block", std::make_shared<retrace::Checkpointed<BlockImpl>>(width));
//   torch::nn::Sequential net(retrace::Checkpointed<BlockImpl>(width), ...);
#pragma once

#include <retrace/cxx20.h>

#include <utility>

#include <retrace/checkpoint.h>

namespace retrace {

namespace detail {

template <class Impl, class Forward>
class CheckpointedForward;

template <class Impl, class Base, class Result, class... Args>
class CheckpointedForward<Impl, Result (Base::*)(Args...)> : public Impl {
 public:
  using Impl::Impl;
  Result forward(Args... args) {
    return checkpoint([this](Args... a) -> Result { return Impl::forward(std::forward<Args>(a)...); },
                      std::forward<Args>(args)...);
  }
};

template <class Impl, class Base, class Result, class... Args>
class CheckpointedForward<Impl, Result (Base::*)(Args...) const> : public Impl {
 public:
  using Impl::Impl;
  Result forward(Args... args) const {
    return checkpoint([this](Args... a) -> Result { return Impl::forward(std::forward<Args>(a)...); },
                      std::forward<Args>(args)...);
  }
};

}  // namespace detail

template <class Impl>
class Checkpointed : public detail::CheckpointedForward<Impl, decltype(&Impl::forward)> {
 public:
  using detail::CheckpointedForward<Impl, decltype(&Impl::forward)>::CheckpointedForward;
};

}  // namespace retrace
