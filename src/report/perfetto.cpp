#include "report/perfetto.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "report/rows.h"
#include "report/step_times.h"

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
  explicit Trace(const plan::Graph& graph)
      : graph_(graph), maker_(makers(graph)), rows_(rows(graph, StepTimes(graph))) {}

  void add(const Scenario& scenario) {
    ++process_;
    const std::vector<double>& rebuilding = scenario.history.replay_seconds;
    const StepTimes times(graph_, rebuilding);
    name(scenario.name);
    for (size_t e = 0; e < graph_.events.size(); ++e) {
      const Span own{times.begin(e) + rebuilding[e],
                     times.duration(e) - rebuilding[e]};  // what is rebuilt, is so first
      add_bytes(times.begin(e), scenario.history.owners[e]);
      add_event(graph_.events[e], own, backward_after(e));
    }
    add_rebuilt(times, scenario.history);
  }

  std::string text() { return R"({"displayTimeUnit":"ms","traceEvents":[)" + events_ + "]}\n"; }

 private:
  struct Span {
    double begin, seconds;
  };

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

  // Operators that backward ran after an event. They are in order, and so are the events that are asked about.
  std::span<const plan::BackwardOp> backward_after(size_t event) {
    if (event == 0) next_backward_ = 0;
    const size_t begin = next_backward_;
    while (next_backward_ < graph_.backward_ops.size() &&
           std::max(graph_.backward_ops[next_backward_].after_event, 0) <= static_cast<int32_t>(event))
      ++next_backward_;
    return std::span(graph_.backward_ops).subspan(begin, next_backward_ - begin);
  }

  // An event's operator, then backward's, each as long as its share of the event's time.
  void add_event(const plan::Event& event, Span own, std::span<const plan::BackwardOp> backward) {
    const bool runs = event.kind == EventKind::op;
    double seconds = runs ? graph_.ops[at(event.id)].seconds : 0;
    for (const plan::BackwardOp& op : backward) seconds += op.seconds;
    const double stretch = seconds > 0 ? own.seconds / seconds : 0;
    if (runs) {
      const plan::Op& op = graph_.ops[at(event.id)];
      const Row& row = rows_[at(event.id)];
      slice(op.name, kForward, own.begin, op.seconds * stretch,
            {{"layer", op.module}, {"shape", row.shape}, {"bytes", row.bytes}, {"saved_bytes", row.saved_bytes}});
      own.begin += op.seconds * stretch;
    }
    for (const plan::BackwardOp& op : backward) {
      slice(op.name, kBackward, own.begin, op.seconds * stretch, ordered_json::object());
      own.begin += op.seconds * stretch;
    }
    // A tape that does not know backward's operators knows what backward asked for.
    if (event.kind != EventKind::unpack || !graph_.backward_ops.empty()) return;
    const plan::OpId op = maker_[at(graph_.handles[at(event.id)])];
    slice(op == plan::kNone ? "backward" : "backward, from " + graph_.ops[at(op)].name, kBackward, own.begin,
          own.seconds, ordered_json::object());
  }

  void add_rebuilt(const StepTimes& times, const plan::History& history) {
    size_t event = SIZE_MAX;
    double now = 0;
    for (const plan::History::Rebuild& rebuild : history.rebuilds) {
      if (rebuild.event != std::exchange(event, rebuild.event)) now = times.begin(rebuild.event);
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
  const std::vector<Row> rows_;
  size_t next_backward_ = 0;
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
