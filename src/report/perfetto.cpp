#include "report/perfetto.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "report/clock.h"
#include "report/rows.h"

namespace retrace::report {
namespace {

using nlohmann::ordered_json;
using plan::at;
using plan::EventKind;

enum Track { kForward = 1, kBackward, kRebuilt };

// Times in a trace are microseconds; a nanosecond is as fine as clocks are.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

class Trace {
 public:
  explicit Trace(const plan::Graph& graph) : graph_(graph), maker_(makers(graph)) {}

  void add(const Scenario& scenario) {
    ++process_;
    const StepClock clock(graph_, scenario.history);
    if (rows_.empty()) rows_ = rows(graph_, clock);
    name(scenario.name);
    const double scale = clock.stretch();
    for (size_t e = 0; e < graph_.events.size(); ++e) {
      if (graph_.events[e].kind == EventKind::op) add_op(graph_.events[e].id, kForward, clock.ready(e), scale);
      if (graph_.events[e].kind == EventKind::unpack && graph_.backward_ops.empty()) add_unknown_backward(clock, e);
      add_bytes(clock.begin(e), scenario.history.owners[e]);
    }
    add_backward(clock);
    add_rebuilt(clock, scenario.history);
  }

  std::string text() { return R"({"displayTimeUnit":"ms","traceEvents":[)" + events_ + "]}\n"; }

 private:
  void put(const ordered_json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  void name(const std::string& process) {
    const auto meta = [&](const char* what, int track, const std::string& text) {
      put({{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", track}, {"args", {{"name", text}}}});
    };
    meta("process_name", 0, process);
    meta("thread_name", kForward, "forward");
    meta("thread_name", kBackward, "backward");
    meta("thread_name", kRebuilt, "rebuilt");
  }

  void slice(const std::string& name, Track track, double begin, double seconds, const ordered_json& args) {
    put({{"ph", "X"},
         {"name", name},
         {"pid", process_},
         {"tid", static_cast<int>(track)},
         {"ts", microseconds(begin)},
         {"dur", microseconds(seconds)},
         {"args", args}});
  }

  void add_op(plan::OpId id, Track track, double begin, double scale) {
    const plan::Op& op = graph_.ops[at(id)];
    const Row& row = rows_[at(id)];
    slice(op.name, track, begin, op.seconds * scale,
          {{"layer", op.module}, {"shape", row.shape}, {"bytes", row.bytes}, {"saved_bytes", row.saved_bytes}});
  }

  // A tape that does not know backward's operators knows what backward asked for.
  void add_unknown_backward(const StepClock& clock, size_t e) {
    const plan::OpId op = maker_[at(graph_.handles[at(graph_.events[e].id)])];
    const std::string name = op == plan::kNone ? "backward" : "backward, from " + graph_.ops[at(op)].name;
    slice(name, kBackward, clock.ready(e), clock.begin(e + 1) - clock.ready(e), ordered_json::object());
  }

  void add_backward(const StepClock& clock) {
    int32_t after = plan::kNone - 1;
    double now = 0;
    for (const plan::BackwardOp& op : graph_.backward_ops) {
      if (op.after_event != std::exchange(after, op.after_event)) {
        const auto e = static_cast<size_t>(std::max(op.after_event, 0));
        const plan::Event& event = graph_.events[e];
        now = clock.ready(e);
        if (event.kind == EventKind::op) now += graph_.ops[at(event.id)].seconds * clock.stretch();
      }
      slice(op.name, kBackward, now, op.seconds * clock.stretch(), ordered_json::object());
      now += op.seconds * clock.stretch();
    }
  }

  void add_rebuilt(const StepClock& clock, const plan::History& history) {
    size_t event = SIZE_MAX;
    double now = 0;
    for (const plan::History::Rebuild& rebuild : history.rebuilds) {
      if (rebuild.event != std::exchange(event, rebuild.event)) now = clock.begin(rebuild.event);
      const plan::Op& op = graph_.ops[at(rebuild.op)];
      slice(op.name, kRebuilt, now, rebuild.seconds, {{"layer", op.module}, {"shape", rows_[at(rebuild.op)].shape}});
      now += rebuild.seconds;
    }
  }

  void add_bytes(double seconds, const plan::Owners& owners) {
    put({{"ph", "C"},
         {"name", "live bytes"},
         {"pid", process_},
         {"ts", microseconds(seconds)},
         {"args",
          {{"weights", owners.weights},
           {"gradients", owners.gradients},
           {"kept", owners.kept},
           {"rebuilt", owners.rebuilt},
           {"other", owners.other}}}});
  }

  const plan::Graph& graph_;
  const std::vector<plan::OpId> maker_;
  std::vector<Row> rows_;
  std::string events_;
  int process_ = 0;
};

}  // namespace

std::string chrome_trace(const plan::Graph& graph, const std::vector<Scenario>& scenarios) {
  Trace trace(graph);
  for (const Scenario& scenario : scenarios) trace.add(scenario);
  return trace.text();
}

}  // namespace retrace::report
