#include "synthetic/graphs.h"

#include <random>
#include <string>
#include <vector>

#include "synthetic/step.h"

namespace retrace::plan {
namespace {

// One core of a common machine: 50 GFLOP/s in matrix products, 8 GB/s through memory, and operators per element.
constexpr double kFlops = 50e9, kBytes = 8e9, kBernoulli = 4e-9, kGelu = 4e-9, kExp = 2e-9;
constexpr int64_t kBatch = 4, kTokens = 256, kWidth = 384, kHeads = 6, kFloat = 4;
constexpr int64_t kRows = kBatch * kTokens, kStream = kRows * kWidth * kFloat;
constexpr int64_t kScores = kBatch * kHeads * kTokens * kTokens * kFloat;

double moved(int64_t bytes) { return static_cast<double>(bytes) / kBytes; }
double product(int64_t m, int64_t n, int64_t k) { return 2.0 * static_cast<double>(m * n * k) / kFlops; }
double per_element(int64_t bytes, double seconds) { return static_cast<double>(bytes / kFloat) * seconds; }

class Transformer {
 public:
  explicit Transformer(SyntheticStep& step) : step_(step) {}

  ValueId block(ValueId x) {
    const ValueId middle = sum(x, dropout(projection(attention(norm(x)), kWidth, kWidth)));
    step_.release(x);
    const ValueId h = projection(norm(middle), kWidth, 4 * kWidth);
    const ValueId g = step_.run("aten::gelu", per_element(4 * kStream, kGelu), {h}, {4 * kStream});
    step_.node({h}, 2 * per_element(4 * kStream, kGelu), 4 * kStream, 4 * kStream);
    step_.release(h);
    const ValueId y = sum(middle, dropout(projection(g, 4 * kWidth, kWidth)));
    step_.release(middle);
    return y;
  }

 private:
  ValueId norm(ValueId x) {
    const ValueId h =
        step_.run("aten::native_layer_norm", 3 * moved(kStream), {x}, {kStream, kRows * kFloat, kRows * kFloat});
    step_.node({x, h + 1, h + 2}, 5 * moved(kStream), kStream, kStream, 2 * kWidth * kFloat);
    step_.release(h + 1);
    step_.release(h + 2);
    return h;
  }

  // Lets go of its input.
  ValueId projection(ValueId x, int64_t in, int64_t out) {
    const int64_t bytes = kRows * out * kFloat;
    const ValueId y = step_.run("aten::addmm", product(kRows, in, out), {x}, {bytes});
    step_.node({x}, 2 * product(kRows, in, out), bytes, kRows * in * kFloat, in * out * kFloat);
    step_.release(x);
    return y;
  }

  ValueId part(ValueId qkv) {
    const ValueId p = step_.run("aten::clone", moved(2 * kStream), {qkv}, {kStream});
    step_.node({}, moved(2 * kStream), kStream, kStream);
    return p;
  }

  ValueId attention(ValueId normed) {
    const ValueId qkv = projection(normed, kWidth, 3 * kWidth);
    const ValueId q = part(qkv), k = part(qkv);
    const double bmm = product(kBatch * kHeads * kTokens, kTokens, kWidth / kHeads);
    ValueId s = step_.run("aten::bmm", bmm, {q, k}, {kScores});
    step_.node({q, k}, 2 * bmm, kScores, 2 * kStream);
    step_.release(q);
    step_.release(k);
    s = then("aten::mul", moved(2 * kScores), s, kScores);
    s = then("aten::masked_fill", moved(2 * kScores), s, kScores);
    const ValueId a = then("aten::_softmax", per_element(kScores, kExp), s, kScores);
    step_.node({a}, moved(3 * kScores), kScores, kScores);
    const ValueId dropped = dropout(a);
    const ValueId v = part(qkv);
    step_.release(qkv);
    const ValueId y = step_.run("aten::bmm", bmm, {dropped, v}, {kStream});
    step_.node({dropped, v}, 2 * bmm, kStream, kScores + kStream);
    step_.release(dropped);
    step_.release(v);
    return then("aten::clone", moved(2 * kStream), y, kStream);
  }

  ValueId then(const std::string& name, double seconds, ValueId x, int64_t bytes) {
    const ValueId y = step_.run(name, seconds, {x}, {bytes});
    step_.release(x);
    return y;
  }

  // Lets go of its input.
  ValueId dropout(ValueId x) {
    const int64_t bytes = step_.bytes(x);
    ValueId mask = step_.run_shape_only("aten::empty_like", 2e-6, x, bytes);
    mask = step_.run_in_place("aten::bernoulli_", per_element(bytes, kBernoulli), mask);
    mask = step_.run_in_place("aten::div_", moved(2 * bytes), mask);
    step_.way(mask, {"bits", bytes / 32, moved(2 * bytes), moved(2 * bytes)});
    const ValueId y = step_.run("aten::mul", moved(3 * bytes), {x, mask}, {bytes});
    step_.node({mask}, moved(3 * bytes), bytes, bytes);
    step_.release(mask);
    step_.release(x);
    return y;
  }

  // Lets go of the branch.
  ValueId sum(ValueId x, ValueId branch) {
    const ValueId y = step_.run("aten::add", moved(3 * kStream), {x, branch}, {kStream});
    step_.release(branch);
    return y;
  }

  SyntheticStep& step_;
};

}  // namespace

Graph synthetic_transformer(int layers) {
  SyntheticStep step;
  Transformer transformer(step);
  ValueId x = step.run("aten::clone", moved(2 * kStream), {step.input(kStream)}, {kStream});
  for (int i = 0; i < layers; ++i) x = transformer.block(x);
  const ValueId loss = step.run("aten::mean", moved(kStream), {x}, {kFloat});
  step.node({x}, moved(2 * kStream), kFloat, kStream);
  step.release(x);
  step.release_later(loss);
  return step.finish();
}

Graph synthetic_resnet(int blocks_per_stage) {
  SyntheticStep step;
  int64_t pixels = 8 * 32 * 32, channels = 256;
  const auto conv = [&](ValueId x, int64_t in, int64_t out, int64_t kernel, bool letting_go) {
    const double seconds = product(pixels, out, in * kernel);
    const ValueId y = step.run("aten::convolution", seconds, {x}, {pixels * out * kFloat}, pixels * in * kFloat);
    step.node({x}, 2 * seconds, pixels * out * kFloat, pixels * in * kFloat, in * out * kernel * kFloat);
    if (letting_go) step.release(x);
    return y;
  };
  const auto norm = [&](ValueId x, int64_t width) {
    const int64_t bytes = pixels * width * kFloat;
    const ValueId y =
        step.run("aten::native_batch_norm", 4 * moved(bytes), {x}, {bytes, width * kFloat, width * kFloat});
    step.node({x, y + 1, y + 2}, 6 * moved(bytes), bytes, bytes, 2 * width * kFloat);
    step.release(x);
    step.release(y + 1);
    step.release(y + 2);
    return y;
  };
  const auto relu = [&](ValueId x, int64_t width, const std::vector<ValueId>& reads) {
    const int64_t bytes = pixels * width * kFloat;
    if (!reads.empty()) x = step.run_in_place("aten::add_", moved(3 * bytes), x, reads);
    const ValueId y = step.run_in_place("aten::relu_", moved(2 * bytes), x);
    step.node({y}, moved(3 * bytes), bytes, bytes);
    return y;
  };
  ValueId x = step.run("aten::clone", moved(pixels * channels), {step.input(pixels * channels * kFloat)},
                       {pixels * channels * kFloat});
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t inner = channels / 4;
    for (int i = 0; i < blocks_per_stage; ++i) {
      ValueId h = relu(norm(conv(x, channels, inner, 1, false), inner), inner, {});
      h = relu(norm(conv(h, inner, inner, 9, true), inner), inner, {});
      h = norm(conv(h, inner, channels, 1, true), channels);
      h = relu(h, channels, {x});
      step.release(x);
      x = h;
    }
    if (stage == 3) break;
    pixels /= 4;
    x = relu(norm(conv(x, channels, 2 * channels, 1, true), 2 * channels), 2 * channels, {});
    channels *= 2;
  }
  const ValueId loss = step.run("aten::mean", moved(pixels * channels * kFloat), {x}, {kFloat});
  step.node({x}, moved(pixels * channels * kFloat), kFloat, pixels * channels * kFloat);
  step.release(x);
  step.release_later(loss);
  return step.finish();
}

Graph synthetic_chain(int values) {
  SyntheticStep step;
  std::mt19937 random(7);
  constexpr int64_t kUnit = 1 << 20;
  ValueId x = step.run("aten::clone", 1e-4, {step.input(kUnit)}, {kUnit});
  ValueId skip = x;
  for (int i = 0; i + 1 < values; ++i) {
    const int64_t bytes = kUnit * (1 + static_cast<int64_t>(random() % 4));
    const double seconds = 1e-4 * static_cast<double>(1 + random() % 40);
    const bool joins = i % 8 == 7;
    const ValueId y = joins ? step.run("join", seconds, {x, skip}, {bytes}) : step.run("map", seconds, {x}, {bytes});
    const bool saves = random() % 3 != 0;
    step.node(saves ? std::vector<ValueId>{x} : std::vector<ValueId>{}, 2 * seconds, bytes, bytes, kUnit / 8);
    if (joins) {
      step.release(skip);
      if (x != skip) step.release(x);
      skip = y;
    } else if (x != skip) {
      step.release(x);
    }
    x = y;
  }
  step.node({x}, 1e-4, kFloat, kUnit);
  step.release(x);
  if (skip != x) step.release(skip);
  return step.finish();
}

Graph repeated(const Graph& graph, int times) {
  Graph result = graph;
  const auto storages = static_cast<int32_t>(storage_count(graph));
  for (int i = 1; i < times; ++i) {
    const auto first_value = static_cast<ValueId>(result.values.size());
    const auto first_op = static_cast<OpId>(result.ops.size());
    const auto first_handle = static_cast<HandleId>(result.handles.size());
    const auto moved = [](int32_t id, int32_t by) { return id == kNone ? kNone : id + by; };
    for (Value value : graph.values) {
      value.producer = moved(value.producer, first_op);
      value.storage = moved(value.storage, i * storages);
      result.values.push_back(std::move(value));
    }
    for (Op op : graph.ops) {
      for (ValueId& v : op.fresh) v += first_value;
      for (Arg& arg : op.args) {
        arg.value += first_value;
        arg.becomes = moved(arg.becomes, first_value);
      }
      result.ops.push_back(std::move(op));
    }
    for (const ValueId v : graph.handles) result.handles.push_back(v + first_value);
    result.events.pop_back();  // the end
    for (Event event : graph.events) {
      if (event.kind == EventKind::op) event.id += first_op;
      if (event.kind == EventKind::release) event.id += first_value;
      if (event.kind == EventKind::save || event.kind == EventKind::unpack || event.kind == EventKind::drop)
        event.id += first_handle;
      result.events.push_back(event);
    }
    result.seconds += graph.seconds;
  }
  return result;
}

}  // namespace retrace::plan
