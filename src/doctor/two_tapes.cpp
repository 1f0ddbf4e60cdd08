#include "doctor/two_tapes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <retrace/errors.h>

#include "doctor/formula.h"

namespace retrace::doctor {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw UsageError("[doctor] " + what); }

[[noreturn]] void refuse_different(const std::string& where) {
  refuse(fmt::format(
      "the two tapes are not of the same step ({}), so no line can be drawn through them. Record both with the "
      "same program, and only another batch.",
      where));
}

bool same_args(const plan::Op& a, const plan::Op& b) {
  return std::equal(
      a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
      [](const plan::Arg& x, const plan::Arg& y) { return x.value == y.value && x.becomes == y.becomes; });
}

void check_same(const plan::Graph& a, const plan::Graph& b) {
  for (size_t i = 0; i < std::min(a.ops.size(), b.ops.size()); ++i) {
    if (a.ops[i].name != b.ops[i].name) {
      refuse_different(
          fmt::format("operator {} is {} in one and {} in the other", i + 1, a.ops[i].name, b.ops[i].name));
    }
    if (!same_args(a.ops[i], b.ops[i]) || a.ops[i].fresh != b.ops[i].fresh) {
      refuse_different(fmt::format("operator {}, {}, reads other values", i + 1, a.ops[i].name));
    }
  }
  if (a.ops.size() != b.ops.size()) refuse_different(fmt::format("{} operators and {}", a.ops.size(), b.ops.size()));
  if (a.values.size() != b.values.size() || a.handles != b.handles) refuse_different("autograd saved other values");
  const bool same =
      std::equal(a.events.begin(), a.events.end(), b.events.begin(), b.events.end(),
                 [](const plan::Event& x, const plan::Event& y) { return x.kind == y.kind && x.id == y.id; });
  if (!same) refuse_different("their events come in another order");
}

// The batch is the smallest size that differs: others are multiples of it.
std::pair<int64_t, int64_t> batches_of(const plan::Graph& a, const plan::Graph& b) {
  std::pair<int64_t, int64_t> least{0, 0};
  for (size_t i = 0; i < a.ops.size(); ++i) {
    for (size_t j = 0; j < std::min(a.ops[i].outputs.size(), b.ops[i].outputs.size()); ++j) {
      const auto &x = a.ops[i].outputs[j].shape, &y = b.ops[i].outputs[j].shape;
      for (size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
        if (x[k] != y[k] && x[k] > 0 && y[k] > 0 && (least.first == 0 || x[k] < least.first)) least = {x[k], y[k]};
      }
    }
  }
  if (least.first == 0) {
    refuse(
        "the two tapes have the same shapes, so nothing is known about another batch. Record one of them with another "
        "batch.");
  }
  return least;
}

// On the line through (first, a) and (second, b).
class Line {
 public:
  Line(int64_t first, int64_t second, int64_t batch) : first_(first), second_(second), batch_(batch) {}

  // Bytes that are not on a whole number count as the next one.
  int64_t operator()(int64_t a, int64_t b) const {
    const __int128 steps = static_cast<__int128>(b) - a, span = second_ - first_;
    const __int128 rise = steps * (batch_ - first_);
    __int128 value = a + rise / span;
    if (rise % span != 0 && (rise > 0) == (span > 0)) ++value;
    if (value > INT64_MAX / 4) times(INT64_MAX, 2);  // refuses
    return value < 0 ? 0 : static_cast<int64_t>(value);
  }

  double seconds(double a, double b) const {
    const double slope = (b - a) / static_cast<double>(second_ - first_);
    const double value = a + slope * static_cast<double>(batch_ - first_);
    return std::isfinite(value) ? std::max(value, 0.0) : 0;
  }

 private:
  int64_t first_, second_, batch_;
};

void fit_op(plan::Op& op, const plan::Op& other, const Line& line) {
  op.seconds = line.seconds(op.seconds, other.seconds);
  op.shortcut_seconds = line.seconds(op.shortcut_seconds, other.shortcut_seconds);
  op.working_bytes = line(op.working_bytes, other.working_bytes);
  if (op.read_bytes.size() == other.read_bytes.size()) {
    for (size_t i = 0; i < op.read_bytes.size(); ++i) op.read_bytes[i] = line(op.read_bytes[i], other.read_bytes[i]);
  } else {
    op.read_bytes.clear();
  }
  for (size_t j = 0; j < std::min(op.outputs.size(), other.outputs.size()); ++j) {
    auto& shape = op.outputs[j].shape;
    for (size_t k = 0; k < std::min(shape.size(), other.outputs[j].shape.size()); ++k) {
      shape[k] = line(shape[k], other.outputs[j].shape[k]);
    }
  }
}

// A way that only one of the tapes has (it paid at that size alone) is not known at another.
void fit_value(plan::Value& value, const plan::Value& other, const Line& line) {
  value.bytes = line(value.bytes, other.bytes);
  if (value.ways.size() != other.ways.size()) value.ways.clear();
  for (size_t i = 0; i < value.ways.size(); ++i) {
    value.ways[i].bytes = line(value.ways[i].bytes, other.ways[i].bytes);
    value.ways[i].store_seconds = line.seconds(value.ways[i].store_seconds, other.ways[i].store_seconds);
    value.ways[i].load_seconds = line.seconds(value.ways[i].load_seconds, other.ways[i].load_seconds);
  }
}

void fit_event(plan::Event& event, const plan::Event& other, const Line& line) {
  event.other_bytes = line(event.other_bytes, other.other_bytes);
  event.other_peak = std::max(line(event.other_peak, other.other_peak), event.other_bytes);
  event.gradient_bytes = std::min(line(event.gradient_bytes, other.gradient_bytes), event.other_bytes);
}

}  // namespace

TwoTapes::TwoTapes(plan::Graph first, plan::Graph second, std::optional<std::pair<int64_t, int64_t>> batches)
    : first_(std::move(first)), second_(std::move(second)) {
  check_same(first_, second_);
  batches_ = batches ? *batches : batches_of(first_, second_);
  if (batches_.first <= 0 || batches_.second <= 0) refuse("a batch of a tape is at least 1.");
  if (batches_.first == batches_.second)
    refuse("the two tapes have the same batch, so nothing is known about another one.");
}

plan::Graph TwoTapes::at(int64_t batch) const {
  const Line line(batches_.first, batches_.second, batch);
  plan::Graph graph = first_;
  for (size_t i = 0; i < graph.ops.size(); ++i) fit_op(graph.ops[i], second_.ops[i], line);
  for (size_t i = 0; i < graph.values.size(); ++i) fit_value(graph.values[i], second_.values[i], line);
  for (size_t i = 0; i < graph.events.size(); ++i) fit_event(graph.events[i], second_.events[i], line);
  graph.start_bytes = line(graph.start_bytes, second_.start_bytes);
  graph.weight_bytes = line(graph.weight_bytes, second_.weight_bytes);
  graph.seconds = line.seconds(graph.seconds, second_.seconds);
  graph.signature = first_.signature ^ static_cast<uint64_t>(batch);
  return graph;
}

}  // namespace retrace::doctor
