#include "doctor/diagnosis.h"

#include <algorithm>

#include <retrace/errors.h>

namespace retrace::doctor {
namespace {

constexpr double kWorthSaying = 0.02;  // of the step's time
constexpr int64_t kSeqStep = 64;       // sequences are told in multiples of it

// What is too large to count does not fit either.
template <class Fits>
bool fits_or_overflows(const Fits& fits) {
  try {
    return fits();
  } catch (const UsageError&) {
    return false;
  }
}

template <class Fits>
Reach reach_of(const Model& model, const Fits& fits) {
  Reach reach;
  reach.batch = largest([&](int64_t batch) {
    Model other = model;
    other.batch = batch;
    return fits_or_overflows([&] { return fits(other); });
  });
  reach.seq = largest(
      [&](int64_t seq) {
        Model other = model;
        other.seq = seq;
        return fits_or_overflows([&] { return fits(other); });
      },
      kSeqStep);
  return reach;
}

PolicyRow row_of(const Diagnosis& d, const PolicyCost& cost) {
  PolicyRow row{.cost = cost, .peak_bytes = plus(d.states.total(), cost.peak_bytes())};
  if (d.memory.bytes == 0) return row;
  row.fits = row.peak_bytes <= d.memory.usable();
  row.reach = reach_of(d.described.model, [&](const Model& model) {
    const PolicyCost other = Checkpointing(model, d.device.balance()).cost(cost.kind, cost.n);
    return plus(states(model).total(), other.peak_bytes()) <= d.memory.usable();
  });
  return row;
}

void add_row(Diagnosis& d, const PolicyCost& cost) {
  const bool there = std::any_of(d.policies.begin(), d.policies.end(), [&](const PolicyRow& row) {
    return row.cost.kind == cost.kind && row.cost.n == cost.n;
  });
  if (!there) d.policies.push_back(row_of(d, cost));
}

void add_rows(Diagnosis& d) {
  const Checkpointing& c = *d.checkpointing;
  const Model& model = d.described.model;
  add_row(d, d.plain);
  add_row(d, c.cost(PolicyKind::products, model.layers));
  if (model.attention == Attention::math) add_row(d, c.cost(PolicyKind::attention, model.layers));
  if (model.layers > 3) add_row(d, c.cost(PolicyKind::blocks, model.layers / 2));
  if (d.advised) add_row(d, *d.advised);
  for (int64_t n = 1; n <= std::min<int64_t>(model.layers, 8); n *= 2) add_row(d, c.cost(PolicyKind::every, n));
  add_row(d, c.leanest());
  std::stable_sort(d.policies.begin(), d.policies.end(),
                   [](const PolicyRow& a, const PolicyRow& b) { return a.cost.extra < b.cost.extra; });
}

void look_further(Diagnosis& d) {
  const Model& model = d.described.model;
  const Options options(model, d.device.balance(), d.memory.usable());
  d.one_by_one = options.one_by_one();
  d.smallest = options.smallest();
  if (const auto& best = d.smallest.first()) d.smallest_reach = reach(model, best->means, d.memory.usable());
}

// Where logits are what fills the rest, checkpointing blocks is the wrong end.
void look_at_loss(Diagnosis& d) {
  if (d.fits) return;
  const Option chunked =
      Options(d.described.model, d.device.balance(), d.memory.usable()).evaluate({.chunked_loss = true});
  if (chunked.fits && chunked.policy.extra < d.advised->extra - kWorthSaying) d.chunked = chunked;
}

}  // namespace

Reach reach(const Model& model, const Means& means, int64_t usable_bytes) {
  return reach_of(model, [&](const Model& other) {
    const Checkpointing checkpointing(other, kUsualBalance, means.chunked_loss ? kLossChunks : 1);
    const int64_t least = checkpointing.leanest(means.offload_activations).peak_bytes();
    return plus(states(other, means).total(), least) <= usable_bytes;
  });
}

Diagnosis diagnose(Completed described, const Device& device, const Memory& memory, std::optional<OomMessage> oom) {
  Diagnosis d;
  d.described = std::move(described);
  d.device = device;
  d.memory = memory;
  d.oom = std::move(oom);
  const Model& model = d.described.model;
  d.params = parameters(model);
  d.states = states(model);
  d.checkpointing.emplace(model, device.balance());
  d.plain = d.checkpointing->cost(PolicyKind::keep_all);
  if (memory.bytes > 0) {
    d.fits = d.plain_bytes() <= memory.usable();
    d.advised = d.checkpointing->cheapest(memory.usable() - d.states.total());
    d.reach = reach(model, {}, memory.usable());
    d.advised ? look_at_loss(d) : look_further(d);
  }
  add_rows(d);
  return d;
}

}  // namespace retrace::doctor
