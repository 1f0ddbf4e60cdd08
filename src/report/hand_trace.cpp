#include "report/hand_trace.h"

#include <algorithm>

#include "plan/simulate/history.h"
#include "plan/simulate/step_simulation.h"
#include "plan/solve/plan.h"

namespace retrace::report {

using plan::at;
using plan::Choice;
using plan::EventKind;
using plan::kNone;
using plan::ValueId;

namespace {

constexpr int64_t kKiB = 1024, kStream = 4 * kKiB, kHidden = 1 * kKiB, kWeight = 1 * kKiB;
constexpr double kProduct = 4e-3, kCheap = 1e-3;  // seconds: of a matrix product; of tanh and of an addition

std::string numbered(const char* name, int i) { return name + std::to_string(i); }

// Writes the step down as it would be recorded.
class Writer {
 public:
  Writer() {
    weights_w_.resize(kHandLayers + 1), weights_v_.resize(kHandLayers + 1);
    gs_.resize(kHandLayers + 1), xs_.resize(kHandLayers + 1);
    batch_ = outside("a", kHidden);
    const ValueId stem = outside("S", kWeight);
    net_.graph.weight_bytes = kWeight;
    for (int i = 1; i <= kHandLayers; ++i) {
      weights_w_[at(i)] = outside(numbered("W", i), kWeight);
      weights_v_[at(i)] = outside(numbered("V", i), kWeight);
      net_.graph.weight_bytes += 2 * kWeight;
    }
    xs_[0] = run("product", "x0", kStream, kProduct, 0, {batch_, stem});
    row("x0 = a·S", true);
  }

  HandNet write() {
    for (int i = 1; i <= kHandLayers; ++i) forward(i);
    release(xs_[kHandLayers]);
    make({{numbered("d", kHandLayers), kStream}}, 0);  // the gradient of the last stream
    row("loss", true);
    for (int i = kHandLayers; i >= 1; --i) backward(i);
    event(EventKind::end, 0);
    net_.graph.signature = 4;
    return std::move(net_);
  }

 private:
  ValueId value(const std::string& name, int64_t bytes, plan::OpId producer) {
    plan::Value v;
    v.name = name;
    v.bytes = bytes;
    v.producer = producer;
    v.storage = static_cast<int32_t>(net_.graph.values.size());
    net_.graph.values.push_back(v);
    return v.storage;
  }
  ValueId outside(const std::string& name, int64_t bytes) {
    const ValueId v = value(name, bytes, kNone);
    net_.graph.values.back().external = true;
    net_.graph.start_bytes += bytes;
    return v;
  }
  void event(EventKind kind, int32_t id) {
    const int64_t bytes = other_bytes();
    net_.graph.events.push_back({kind, id, bytes, bytes, gradient_bytes_});
    net_.gradients.push_back(gradients_);
  }
  ValueId run(const std::string& name, const std::string& result, int64_t bytes, double seconds, int layer,
              const std::vector<ValueId>& reads) {
    const auto id = static_cast<plan::OpId>(net_.graph.ops.size());
    plan::Op op;
    op.name = name;
    op.module = numbered("layer", layer);
    op.seconds = seconds;
    op.working_bytes = bytes;
    for (const ValueId v : reads) op.args.push_back({v});
    const ValueId made = value(result, bytes, id);
    op.fresh.push_back(made);
    net_.graph.ops.push_back(std::move(op));
    net_.graph.seconds += seconds;
    event(EventKind::op, id);
    return made;
  }
  void save(ValueId v) {
    net_.graph.handles.push_back(v);
    event(EventKind::save, static_cast<int32_t>(net_.graph.handles.size()) - 1);
  }
  void release(ValueId v) { event(EventKind::release, v); }
  void row(const std::string& what, bool is_forward) {
    net_.rows.push_back({what, net_.graph.events.size(), is_forward});
  }

  void forward(int i) {
    const auto n = [&](const char* name) { return numbered(name, i); };
    const ValueId x = xs_[at(i - 1)];
    save(x);
    const ValueId z = run("product", n("z"), kHidden, kProduct, i, {x, weights_w_[at(i)]});
    row(n("z") + " = " + numbered("x", i - 1) + "·" + n("W"), true);
    const ValueId g = gs_[at(i)] = run("tanh", n("g"), kHidden, kCheap, i, {z});
    save(g);
    release(z);
    row(n("g") + " = tanh " + n("z"), true);
    save(g);
    const ValueId h = run("product", n("h"), kStream, kProduct, i, {g, weights_v_[at(i)]});
    release(g);
    row(n("h") + " = " + n("g") + "·" + n("V"), true);
    xs_[at(i)] = run("add", n("x"), kStream, kCheap, i, {x, h});
    release(h);
    release(x);
    row(n("x") + " = " + numbered("x", i - 1) + " + " + n("h"), true);
  }

  int64_t other_bytes() const {
    int64_t bytes = net_.graph.start_bytes;
    for (const HandPart& part : gradients_) bytes += part.bytes;
    return bytes;
  }
  // Between the latest event and the next.
  void make(const std::vector<HandPart>& made, double seconds) {
    gradients_.insert(gradients_.end(), made.begin(), made.end());
    plan::Event& latest = net_.graph.events.back();
    latest.other_peak = std::max(latest.other_peak, other_bytes());
    net_.gradients.back() = gradients_;
    if (seconds <= 0) return;
    net_.graph.backward_ops.push_back({"backward", seconds, static_cast<int32_t>(net_.graph.events.size()) - 1});
    net_.graph.seconds += seconds;
  }
  void free(const std::vector<std::string>& names) {
    std::erase_if(gradients_, [&](const HandPart& part) {
      return std::find(names.begin(), names.end(), part.name) != names.end();
    });
  }
  // Backward asks for a saved value, makes gradients with it, lets go of it and of the gradients it came with.
  void node(ValueId v, const std::vector<HandPart>& made, const std::vector<std::string>& freed, double seconds) {
    const auto& handles = net_.graph.handles;
    size_t handle = handles.size() - 1;
    while (handles[handle] != v || std::find(used_.begin(), used_.end(), handle) != used_.end()) --handle;
    used_.push_back(handle);
    event(EventKind::unpack, static_cast<int32_t>(handle));
    make(made, seconds);
    free(freed);
    event(EventKind::drop, static_cast<int32_t>(handle));
  }

  void backward(int i) {
    const auto n = [&](const char* name) { return numbered(name, i); };
    node(gs_[at(i)], {{n("dV"), kWeight}, {n("dg"), kHidden}}, {}, 2 * kProduct);
    gradient_bytes_ += kWeight;
    row("back " + n("h"), false);
    node(gs_[at(i)], {{n("dz"), kHidden}}, {n("dg")}, kCheap);
    row("back " + n("g"), false);
    node(xs_[at(i - 1)], {{n("dW"), kWeight}, {n("e"), kStream}}, {n("dz")}, 2 * kProduct);
    gradient_bytes_ += kWeight;
    make({{numbered("d", i - 1), kStream}}, kCheap);  // the sum of both ways back to x, d and e
    free({n("d"), n("e")});
    if (i == 1) {  // a, which the gradient of S needs, is there anyway
      make({{"dS", kWeight}}, kProduct);
      gradient_bytes_ += kWeight;
      free({"d0"});
    }
    row("back " + n("z"), false);
  }

  HandNet net_;
  ValueId batch_ = kNone;
  std::vector<ValueId> xs_, gs_, weights_w_, weights_v_;
  std::vector<size_t> used_;  // handles
  std::vector<HandPart> gradients_;
  int64_t gradient_bytes_ = 0;  // of weights
};

std::vector<std::string> names_of(const plan::Graph& graph, const plan::SimulationState& state, bool rebuilt) {
  std::vector<std::string> names;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const plan::SimValue& value = state.values[v];
    if (graph.values[v].external) continue;
    if (rebuilt ? value.rebuilt != 0 : is_held(value)) names.push_back(graph.values[v].name);
  }
  return names;
}

// What is live at the highest point of an event.
std::vector<HandPart> parts_of(const HandNet& net, const plan::Choices& choices, size_t event, int64_t live_bytes) {
  const plan::Graph& graph = net.graph;
  plan::History history;
  history.live_event = event;
  plan::Simulator(graph).run(choices, history);
  std::vector<HandPart> parts{{"weights", graph.weight_bytes}, {"a", graph.start_bytes - graph.weight_bytes}};
  for (const plan::History::Live& live : history.live) parts.push_back({graph.values[at(live.value)].name, live.bytes});
  parts.insert(parts.end(), net.gradients[event].begin(), net.gradients[event].end());
  int64_t rest = live_bytes;
  for (const HandPart& part : parts) rest -= part.bytes;
  const plan::Event& e = graph.events[event];
  if (rest > 0 && e.kind == EventKind::op)  // what the operator is making
    parts.push_back({graph.values[at(graph.ops[at(e.id)].fresh.front())].name, rest});
  return parts;
}

HandTrace::Moment moment_of(const HandNet& net, const plan::Choices& choices, const plan::Outcome& outcome,
                            const plan::History& history, size_t begin, size_t end) {
  HandTrace::Moment moment;
  const auto first = outcome.event_peaks.begin();
  const auto highest =
      std::max_element(first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end));
  moment.live_bytes = *highest;
  moment.parts = parts_of(net, choices, static_cast<size_t>(highest - first), *highest);
  for (const plan::History::Rebuild& rebuild : history.rebuilds) {
    if (rebuild.event >= begin && rebuild.event < end)
      moment.ran_again.push_back(net.graph.values[at(net.graph.ops[at(rebuild.op)].fresh.front())].name);
  }
  return moment;
}

HandTrace trace(const HandNet& net, const std::string& policy, const plan::Choices& choices) {
  const plan::Graph& graph = net.graph;
  plan::History history;
  const plan::Outcome outcome = plan::Simulator(graph).run(choices, history);
  HandTrace trace;
  trace.policy = policy;
  trace.peak_bytes = outcome.peak_bytes;
  trace.ops_again = outcome.ops_replayed;
  trace.extra_seconds = outcome.replay_seconds;
  plan::StepSimulation simulation(graph);
  simulation.begin(choices, {});
  size_t begin = 0;
  for (const HandNet::Row& row : net.rows) {
    simulation.run_until(row.end_event);
    HandTrace::Moment moment = moment_of(net, choices, outcome, history, begin, row.end_event);
    moment.held = names_of(graph, simulation.now(), false);
    moment.rebuilt = names_of(graph, simulation.now(), true);
    if (row.forward) trace.held_bytes = simulation.now().held_bytes;
    if (outcome.peak_event >= begin && outcome.peak_event < row.end_event) trace.peak_row = trace.moments.size();
    trace.moments.push_back(std::move(moment));
    begin = row.end_event;
  }
  return trace;
}

ValueId stream(const HandNet& net, int i) {
  const auto& values = net.graph.values;
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const plan::Value& v) { return v.name == numbered("x", i); });
  return static_cast<ValueId>(found - values.begin());
}

}  // namespace

HandNet make_hand_net() { return Writer().write(); }

HandTrace trace_full(const HandNet& net) {
  plan::Choices choices(net.graph.values.size());
  for (const ValueId v : net.graph.handles) choices[at(v)] = Choice::keep();
  return trace(net, "full", choices);
}

HandTrace trace_every(const HandNet& net, int n) {
  plan::Choices choices(net.graph.values.size());
  std::vector<std::string> kept;
  for (int i = n; i <= kHandLayers; i += n) {
    choices[at(stream(net, i - 1))] = Choice::keep();
    kept.push_back(numbered("x", i - 1));
  }
  HandTrace result = trace(net, "every:" + std::to_string(n), choices);
  result.kept = kept;
  return result;
}

}  // namespace retrace::report
