#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include <retrace/checkpoint.h>
#include <retrace/errors.h>
#include <retrace/sequential.h>

#include "replay/replay.h"
#include "tape/scope.h"
#include "testing/hooks.h"

namespace retrace {
namespace detail {

Region::Region() : Region(CheckpointOptions{}) {}

Region::Region(const CheckpointOptions& options) {
  if (!at::GradMode::is_enabled()) return;
  const Policy policy = recompute_everything() ? recompute_all() : options.policy;
  scope_ = begin_scope({.policy = policy, .verify = options.verify || verify_everything()}, &rebuild);
}

Region::~Region() {
  if (scope_) end_scope(std::static_pointer_cast<Scope>(scope_));
}

}  // namespace detail

namespace {

void check_segments(int64_t layers, int64_t segments) {
  if (layers < 1) {
    throw UsageError(
        "[checkpoint_sequential] the network has no layers, so there is nothing to run: pass at least one.");
  }
  if (segments < 1 || segments > layers) {
    throw UsageError("[checkpoint_sequential] " + std::to_string(segments) + " segments asked of " +
                     std::to_string(layers) + " layers, so some segment would be empty: pass 1 to " +
                     std::to_string(layers) + ".");
  }
}

// Segments needed, first come first served, when none may exceed `limit` bytes.
int64_t segments_within(std::span<const int64_t> bytes, int64_t limit) {
  int64_t segments = 1, filled = 0;
  for (const int64_t b : bytes) {
    if (filled + b > limit) {
      ++segments;
      filled = 0;
    }
    filled += b;
  }
  return segments;
}

}  // namespace

void detail::check_layer_bytes(int64_t layers, std::span<const int64_t> layer_bytes) {
  if (static_cast<int64_t>(layer_bytes.size()) == layers) return;
  throw UsageError("[checkpoint_sequential] bytes are given for " + std::to_string(layer_bytes.size()) +
                   " layers, but the network has " + std::to_string(layers) +
                   ", so segments cannot be balanced by them: pass one number per layer.");
}

std::vector<int64_t> balanced_segments(int64_t layers, int64_t segments) {
  check_segments(layers, segments);
  std::vector<int64_t> sizes(static_cast<size_t>(segments), layers / segments);
  for (int64_t i = 0; i < layers % segments; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

std::vector<int64_t> balanced_segments(std::span<const int64_t> layer_bytes, int64_t segments) {
  const auto layers = static_cast<int64_t>(layer_bytes.size());
  check_segments(layers, segments);
  if (std::any_of(layer_bytes.begin(), layer_bytes.end(), [](int64_t b) { return b < 0; })) {
    throw UsageError(
        "[checkpoint_sequential] a layer's bytes are negative, so segments cannot be balanced by them: "
        "pass what each layer holds for backward, 0 or more.");
  }
  int64_t low = *std::max_element(layer_bytes.begin(), layer_bytes.end());
  int64_t high = std::accumulate(layer_bytes.begin(), layer_bytes.end(), int64_t{0});
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    segments_within(layer_bytes, middle) <= segments ? high = middle : low = middle + 1;
  }
  std::vector<int64_t> sizes(1, 0);
  int64_t filled = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t b = layer_bytes[static_cast<size_t>(i)];
    const auto open = segments - static_cast<int64_t>(sizes.size());
    const bool must_split = sizes.back() > 0 && layers - i <= open;  // or later segments would be empty
    if (sizes.back() > 0 && (filled + b > low || must_split)) {
      sizes.push_back(0);
      filled = 0;
    }
    ++sizes.back();
    filled += b;
  }
  return sizes;
}

}  // namespace retrace
