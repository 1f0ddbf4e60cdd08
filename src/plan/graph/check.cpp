// check(): whether a graph is one that a step can have written.
#include "plan/graph/graph.h"

#include <algorithm>
#include <cmath>

#include <retrace/errors.h>

namespace retrace::plan {
namespace {

// Far above any machine, and low enough that sums over a step neither overflow nor become infinite.
constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr double kMostSeconds = 1e12;

// The most there can be: every value may begin one, and every unpack gives out one more. Whoever keeps a table by
// storage can rely on its size being in proportion to the graph's.
size_t most_storages(const Graph& graph) { return graph.values.size() + graph.events.size(); }

class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), maker_(graph.values.size(), kNone), begun_(most_storages(graph)) {}

  void run() {
    where_ = "graph";
    bytes(graph_.start_bytes, "start_bytes");
    bytes(graph_.weight_bytes, "weight_bytes");
    seconds(graph_.seconds, "seconds");
    values();
    makers();
    args();
    handles();
    events();
    backwards();
    backward_ops();
  }

 private:
  void values() {
    const auto storages = static_cast<int64_t>(most_storages(graph_));
    int64_t total = 0;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& v = graph_.values[i];
      enter("value", i);
      bytes(v.bytes, "bytes");
      name(v.name);
      ways(v);
      if (v.producer != kNone) id(v.producer, graph_.ops.size(), "op");
      if (v.storage < kNone || v.storage >= storages)
        fail("is in storage " + std::to_string(v.storage) + " of " + std::to_string(storages));
      total += v.bytes;
      if (total > kMostBytes) fail("brings the bytes of all values above 2^60");
    }
  }

  void ways(const Value& v) {
    if (v.ways.size() > kMostWays)
      fail("can be held in " + std::to_string(v.ways.size()) + " ways, too many to tell apart");
    for (const Way& way : v.ways) {
      name(way.kind);
      bytes(way.bytes, "bytes held in a way");
      seconds(way.store_seconds, "store_seconds");
      seconds(way.load_seconds, "load_seconds");
      if (way.bytes > v.bytes) fail("is larger held as '" + way.kind + "' than it is");
    }
  }

  // Who lists a value as a result. A root may be listed too: its recipe could not be trusted.
  void makers() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      enter("op", i);
      name(op.name);
      name(op.module);
      outputs(op);
      bytes(op.working_bytes, "working_bytes");
      seconds(op.seconds, "seconds");
      seconds(op.shortcut_seconds, "shortcut_seconds");
      for (const ValueId v : op.fresh) {
        makes(static_cast<OpId>(i), v);
        once(begun_, value(v).storage, "begins storage");
      }
      for (const Arg& arg : op.args) {
        id(arg.value, graph_.values.size(), "value");
        if (arg.becomes != kNone) makes(static_cast<OpId>(i), arg.becomes);
      }
      if (!op.read_bytes.empty() && op.read_bytes.size() != op.args.size())
        fail("reads " + std::to_string(op.read_bytes.size()) + " views of " + std::to_string(op.args.size()) +
             " arguments");
      for (const int64_t read : op.read_bytes) bytes(read, "read_bytes");
      if (op.shortcut_seconds > 0 && op.fresh.empty()) fail("has a shortcut to a result it does not make");
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].producer == kNone || maker_[i] == graph_.values[i].producer) continue;
      enter("value", i);
      fail("names op " + std::to_string(graph_.values[i].producer) + " as its producer, which does not make it");
    }
  }

  void outputs(const Op& op) {
    for (const Output& output : op.outputs) {
      if (std::max(output.dtype.size(), output.device.size()) > kLongestType)
        fail("has a result of type '" + output.dtype + "' on '" + output.device + "', longer than " +
             std::to_string(kLongestType) + " bytes");
      for (const int64_t size : output.shape) bytes(size, "a size of a result");
    }
  }

  void name(const std::string& text) {
    if (text.size() > kLongestName)
      fail("has a name of " + std::to_string(text.size()) + " bytes, more than " + std::to_string(kLongestName));
  }

  void makes(OpId op, ValueId v) {
    id(v, graph_.values.size(), "value");
    OpId& maker = maker_[at(v)];
    if (maker != kNone && maker != op)
      fail("makes value " + std::to_string(v) + ", as op " + std::to_string(maker) + " does");
    if (value(v).producer != kNone && value(v).producer != op)
      fail("makes value " + std::to_string(v) + ", which names another producer");
    if (value(v).storage == kNone) fail("makes value " + std::to_string(v) + ", which is in no storage");
    maker = op;
  }

  void args() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      enter("op", i);
      for (const Arg& arg : graph_.ops[i].args) {
        if (maker_[at(arg.value)] >= static_cast<OpId>(i))
          fail("reads value " + std::to_string(arg.value) + " before it is made");
      }
    }
  }

  void handles() {
    for (size_t i = 0; i < graph_.handles.size(); ++i) {
      enter("handle", i);
      id(graph_.handles[i], graph_.values.size(), "value");
    }
  }

  void events() {
    ran_.resize(graph_.ops.size());
    saved_.resize(graph_.handles.size());
    dropped_.resize(graph_.handles.size());
    released_.resize(most_storages(graph_));
    for (size_t i = 0; i < graph_.events.size(); ++i) {
      enter("event", i);
      event(graph_.events[i]);
    }
  }

  void backwards() {
    int32_t before = 0;
    for (size_t i = 0; i < graph_.backwards.size(); ++i) {
      const Backward& backward = graph_.backwards[i];
      enter("backward", i);
      if (backward.begin < before || backward.end < backward.begin || at(backward.end) > graph_.events.size())
        fail("runs from event " + std::to_string(backward.begin) + " to " + std::to_string(backward.end) + " of " +
             std::to_string(graph_.events.size()) + ", after one that ended at " + std::to_string(before));
      before = backward.end;
    }
  }

  void backward_ops() {
    int32_t last = kNone;
    for (size_t i = 0; i < graph_.backward_ops.size(); ++i) {
      const BackwardOp& op = graph_.backward_ops[i];
      enter("backward op", i);
      name(op.name);
      seconds(op.seconds, "seconds");
      if (op.after_event < last || op.after_event >= static_cast<int32_t>(graph_.events.size()))
        fail("ran after event " + std::to_string(op.after_event) + ", which is out of order");
      last = op.after_event;
    }
  }

  void event(const Event& e) {
    bytes(e.other_bytes, "other_bytes");
    bytes(e.other_peak, "other_peak");
    bytes(e.gradient_bytes, "gradient_bytes");
    switch (e.kind) {
      case EventKind::op:
        return op_ran(e.id);
      case EventKind::save:
        id(e.id, graph_.handles.size(), "handle");
        return once(saved_, e.id, "saves handle");
      case EventKind::release:
        id(e.id, graph_.values.size(), "value");
        made(e.id);
        if (value(e.id).storage != kNone) once(released_, value(e.id).storage, "releases storage");
        return;
      case EventKind::unpack:
        open(e.id, "unpacks handle");
        return made(graph_.handles[at(e.id)]);
      case EventKind::drop:
        open(e.id, "drops handle");
        return once(dropped_, e.id, "drops handle");
      case EventKind::end:
        if (e.id != 0) fail("ends the step with id " + std::to_string(e.id) + " instead of 0");
        return;
    }
    fail("is of unknown kind " + std::to_string(static_cast<int>(e.kind)));
  }

  void op_ran(OpId op) {
    id(op, graph_.ops.size(), "op");
    if (op < next_op_) fail("runs op " + std::to_string(op) + " again, or after a later one");
    next_op_ = op + 1;
    for (const Arg& arg : graph_.ops[at(op)].args) made(arg.value);
    ran_[at(op)] = true;
  }

  void open(HandleId handle, const char* verb) {
    id(handle, graph_.handles.size(), "handle");
    const auto at_handle = at(handle);
    if (!saved_[at_handle]) fail(std::string(verb) + " " + std::to_string(handle) + " before it is saved");
    if (dropped_[at_handle]) fail(std::string(verb) + " " + std::to_string(handle) + " after it was dropped");
  }

  void made(ValueId v) {
    const OpId maker = maker_[at(v)];
    if (maker != kNone && !ran_[at(maker)])
      fail("needs value " + std::to_string(v) + " before op " + std::to_string(maker) + " has made it");
  }

  void once(std::vector<bool>& seen, int32_t item, const char* verb) {
    if (seen[at(item)]) fail(std::string(verb) + " " + std::to_string(item) + " twice");
    seen[at(item)] = true;
  }

  void id(int32_t item, size_t count, const char* kind) {
    if (item < 0 || at(item) >= count)
      fail(std::string("refers to ") + kind + " " + std::to_string(item) + " of " + std::to_string(count));
  }

  void bytes(int64_t amount, const char* name) {
    if (amount < 0 || amount > kMostBytes) fail(std::string(name) + " is " + std::to_string(amount));
  }

  void seconds(double amount, const char* name) {
    if (!std::isfinite(amount) || amount < 0 || amount > kMostSeconds)
      fail(std::string(name) + " is " + std::to_string(amount));
  }

  // Where we are is two numbers, and a text only once something is wrong.
  void enter(const char* kind, size_t index) {
    where_ = kind;
    index_ = index;
  }

  const Value& value(ValueId v) const { return graph_.values[at(v)]; }

  [[noreturn]] void fail(const std::string& what) const {
    std::string place = where_;
    if (place != "graph") place += " " + std::to_string(index_);
    if (place.starts_with("op")) place += " '" + graph_.ops[index_].name + "'";
    throw UsageError("[check] " + place + ": " + what +
                     ", so these are not the records of a training step and cannot be planned for. Record the step "
                     "again.");
  }

  const Graph& graph_;
  std::vector<OpId> maker_;             // by value; none for what comes from outside
  std::vector<bool> begun_, released_;  // by storage
  std::vector<bool> ran_;               // by op
  std::vector<bool> saved_, dropped_;   // by handle
  OpId next_op_ = 0;
  const char* where_ = "";
  size_t index_ = 0;
};

}  // namespace

void check(const Graph& graph) { Checker(graph).run(); }

}  // namespace retrace::plan
