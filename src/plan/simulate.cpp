#include "plan/simulate.h"

#include <algorithm>
#include <span>

#include "plan/demand.h"

// Mirrors, rule by rule, src/tape/tape.cpp (who is held, when it is let go of) and src/replay/replay.cpp (what is run again,
// when a rebuilt value is freed). A change there belongs here too; tests/session/predict_test.cpp compares the two.

namespace retrace::plan {
namespace {

struct SimValue {
  OpId producer = kNone;
  int32_t storage = kNone;
  int64_t bytes = 0;  // 0 for what came from outside
  int32_t alive = 0, pending = 0, uses = 0;
  int32_t rebuilt = 0;  // a buffer, or 0
  bool held = false, encoded = false;
};

struct SimOp {
  std::span<const Arg> args;
  std::span<const ValueId> fresh;
  double seconds = 0, shortcut_seconds = 0;
  int64_t working_bytes = 0;
  int32_t alive = 0, pending = 0;
  uint32_t visited = 0;
};

// Memory that lives while somebody refers to it.
struct Buffer {
  int64_t bytes = 0;
  int32_t references = 0;
  ValueId value = kNone;
  bool rebuilt = false;
};

}  // namespace

class Simulator::State {
 public:
  explicit State(const Graph& graph) : graph_(graph), keepable_(plan::keepable(graph)) {
    for (const Value& v : graph.values) {
      first_values_.push_back({v.producer, v.storage, v.foreign ? 0 : v.bytes});
      storages_ = std::max(storages_, v.storage + 1);
    }
    const auto unpack = [](const Event& e) { return e.kind == EventKind::unpack; };
    first_unpack_ =
        static_cast<size_t>(std::find_if(graph.events.begin(), graph.events.end(), unpack) - graph.events.begin());
    offered_.assign(graph.values.size(), 0);
    released_.assign(static_cast<size_t>(storages_), graph.events.size());
    for (const Op& op : graph.ops) {
      first_ops_.push_back({op.args, op.fresh, op.seconds, op.shortcut_seconds, op.working_bytes});
    }
  }

  Outcome run(const Choices& choices, bool event_peaks, int64_t give_up_bytes, double give_up_seconds) {
    begin(choices);
    give_up_bytes_ = give_up_bytes;
    give_up_seconds_ = give_up_seconds;
    play(graph_.events.size(), event_peaks);
    return finish();
  }

  Outcome run_near(const Choices& choices, double give_up_seconds, const Price& price) {
    if (!resume(choices)) {
      begin(choices);
      play(first_unpack_, true);
      begin_backward();
      remember(choices);
    }
    give_up_seconds_ = give_up_seconds;
    price_ = price;
    for (size_t e = 0; e < at_; ++e) excess_ += std::max<int64_t>(0, outcome_.event_peaks[e] - price_.budget_bytes);
    stopped_ = too_dear();
    play(graph_.events.size(), true);
    return finish();
  }

  std::vector<Live> live_at(const Choices& choices, size_t event) {
    begin(choices);
    play(event, false);
    event_peak_ = 0;
    watching_ = true;
    happen(graph_.events[at_]);
    watching_ = false;
    return seen_;
  }

  // For demand.h.
  SimValue& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  SimOp& op(OpId id) { return ops_[static_cast<size_t>(id)]; }
  demand::Work& work(Alive) { return alive_work_; }
  demand::Work& work(Pending) { return pending_work_; }
  void nobody_alive(ValueId id) {
    if (in_backward_ && value(id).producer != kNone) let_go(id);  // a root may be needed again by what is evicted
  }
  void nobody_pending(ValueId id) {
    if (value(id).uses == 0) free_rebuilt(id);
  }

 private:
  // -- Where forward ended, for choices that differ in little --

  // Forward does nothing but hold what is kept, so another choice changes what is live there and who needs whom, and
  // nothing else. Encodings take time and room of their own: with them, forward is run again.
  struct Turn {
    Choices choices;
    std::vector<SimValue> values;
    std::vector<SimOp> ops;
    std::vector<Buffer> buffers;
    std::vector<ValueId> current;
    std::vector<char> consumed;
    int64_t live = 0, held_bytes = 0;
    Outcome outcome;
    size_t at = 0;
  };

  void remember(const Choices& choices) {
    turn_ = {choices, values_, ops_, buffers_, current_, consumed_, live_, held_bytes_, outcome_, at_};
  }

  bool resume(const Choices& choices) {
    if (turn_.choices.size() != choices.size()) return false;
    changed_.clear();
    choices_ = &choices;
    for (size_t v = 0; v < choices.size(); ++v) {
      if (choices[v] == turn_.choices[v]) continue;
      const auto id = static_cast<ValueId>(v);
      if (choice(id) == Choice::encode || turn_.values[v].encoded) return false;
      if (offered_[v] != 0 && (choice(id) == Choice::keep) != turn_.values[v].held) changed_.push_back(id);
    }
    if (changed_.size() > kFew) return false;
    begin(choices);
    values_ = turn_.values;
    ops_ = turn_.ops;
    buffers_ = turn_.buffers;
    current_ = turn_.current;
    consumed_ = turn_.consumed;
    live_ = turn_.live;
    held_bytes_ = turn_.held_bytes;
    outcome_ = turn_.outcome;
    at_ = turn_.at;
    for (const ValueId id : changed_) change_held(id);
    in_backward_ = true;
    outcome_.peak_bytes = 0;
    for (size_t e = 0; e < at_; ++e) {
      if (outcome_.event_peaks[e] <= outcome_.peak_bytes) continue;
      outcome_.peak_bytes = outcome_.event_peaks[e];
      outcome_.peak_event = e;
    }
    return true;
  }

  void change_held(ValueId id) {
    const SimValue& v = value(id);
    const int64_t bytes = v.held ? -v.bytes : v.bytes;
    v.held ? let_go(id) : hold(id);
    for (size_t e = released_[static_cast<size_t>(v.storage)]; e < at_; ++e) outcome_.event_peaks[e] += bytes;
  }

  void play(size_t end, bool event_peaks) {
    for (; at_ < end && !stopped_; ++at_) {
      event_peak_ = 0;
      happen(graph_.events[at_]);
      if (event_peaks) outcome_.event_peaks.push_back(event_peak_);
      if (event_peak_ <= price_.budget_bytes) continue;
      excess_ += event_peak_ - price_.budget_bytes;
      stopped_ |= too_dear();
    }
  }

  bool too_dear() const {
    const double excess = price_.excess(outcome_.peak_bytes, static_cast<double>(excess_), graph_.events.size());
    return outcome_.replay_seconds + price_.per_byte * excess > give_up_seconds_;
  }

  Outcome finish() {
    outcome_.gave_up = stopped_;
    return outcome_;
  }

  void begin(const Choices& choices) {
    choices_ = &choices;
    at_ = 0;
    values_ = first_values_;
    ops_ = first_ops_;
    buffers_.assign(static_cast<size_t>(storages_) + 1, Buffer{});  // 0 is none, then one per storage
    current_.assign(static_cast<size_t>(storages_), kNone);
    consumed_.assign(graph_.handles.size(), 0);
    in_hand_.assign(graph_.handles.size(), 0);
    free_buffers_.clear();
    saved_.clear();
    live_ = held_bytes_ = rebuilt_bytes_ = 0;
    in_backward_ = stopped_ = false;
    outcome_ = Outcome{};
    give_up_bytes_ = INT64_MAX;
    give_up_seconds_ = 1e300;
    price_ = {};
    excess_ = 0;
  }

  void happen(const Event& event) {
    other_ = event.other_bytes;
    running_ = kNone;
    switch (event.kind) {
      case EventKind::op:
        run_forward(event.id);
        break;
      case EventKind::save:
        save(event.id);
        break;
      case EventKind::release:
        released_[static_cast<size_t>(value(event.id).storage)] = at_;
        unreference(storage_buffer(value(event.id).storage));
        break;
      case EventKind::unpack:
        unpack(event.id);
        break;
      case EventKind::drop:
        drop(event.id);
        break;
      case EventKind::end:
        break;
    }
    other_ = event.other_peak;
    note(0);
  }

  // -- Bytes --

  void note(int64_t extra) {
    const int64_t total = other_ + live_ + extra;
    if (total <= event_peak_ && total <= outcome_.peak_bytes) return;
    if (total > event_peak_) {
      event_peak_ = total;
      if (watching_) watch();
    }
    if (total <= outcome_.peak_bytes) return;
    outcome_.peak_bytes = total;
    outcome_.peak_event = at_;
    outcome_.peak_op = running_;
    outcome_.at_peak = owners(extra);
    stopped_ |= total > give_up_bytes_;
  }

  Owners owners(int64_t extra) const {
    Owners o;
    o.weights = graph_.weight_bytes;
    o.gradients = graph_.events[at_].gradient_bytes;
    o.kept = held_bytes_;
    o.rebuilt = rebuilt_bytes_ + (in_backward_ ? extra : 0);
    o.other = other_ + live_ + extra - o.weights - o.gradients - o.kept - o.rebuilt;
    return o;
  }

  void watch() {
    seen_.clear();
    for (const Buffer& b : buffers_) {
      if (b.references > 0 && b.value != kNone) seen_.push_back({b.value, b.rebuilt});
    }
    for (size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].encoded) seen_.push_back({static_cast<ValueId>(v), false});
    }
  }

  int32_t storage_buffer(int32_t storage) const { return storage + 1; }

  void reference(int32_t buffer) {
    Buffer& b = buffers_[static_cast<size_t>(buffer)];
    if (b.references++ > 0) return;
    live_ += b.bytes;
    if (b.rebuilt) rebuilt_bytes_ += b.bytes;
  }

  void unreference(int32_t buffer) {
    Buffer& b = buffers_[static_cast<size_t>(buffer)];
    if (--b.references > 0) return;
    live_ -= b.bytes;
    if (!b.rebuilt) return;
    rebuilt_bytes_ -= b.bytes;
    free_buffers_.push_back(buffer);
  }

  int32_t new_buffer(ValueId id) {
    if (free_buffers_.empty()) {
      free_buffers_.push_back(static_cast<int32_t>(buffers_.size()));
      buffers_.emplace_back();
    }
    const int32_t buffer = free_buffers_.back();
    free_buffers_.pop_back();
    // Also of what came from outside: a copy of a BatchNorm's statistics is ours.
    buffers_[static_cast<size_t>(buffer)] = {graph_.values[static_cast<size_t>(id)].bytes, 0, id, true};
    reference(buffer);
    return buffer;
  }

  void spend(double seconds) {
    outcome_.replay_seconds += seconds;
    stopped_ |= outcome_.replay_seconds > give_up_seconds_;
  }

  // -- Forward --

  Choice choice(ValueId id) const {
    Choice c = (*choices_)[static_cast<size_t>(id)];
    if (c == Choice::encode && graph_.values[static_cast<size_t>(id)].encoding.bytes == 0) c = Choice::keep;
    const bool kept = c == Choice::keep || c == Choice::encode;
    return kept && !keepable_[static_cast<size_t>(id)] ? Choice::rebuild : c;
  }

  void run_forward(OpId id) {
    running_ = id;
    const SimOp& o = op(id);
    note(o.working_bytes);
    running_ = kNone;
    for (const ValueId v : o.fresh) begin_storage(v);
    for (const Arg& arg : o.args) {
      if (arg.becomes != kNone) overwrite(arg);
    }
    for (const Arg& arg : o.args) {
      if (!arg.shape_only && arg.becomes == kNone) hold_if_kept(arg.value);
    }
  }

  void begin_storage(ValueId id) {
    SimValue& v = value(id);
    Buffer& b = buffers_[static_cast<size_t>(storage_buffer(v.storage))];
    b.bytes = v.bytes;
    b.value = id;
    current_[static_cast<size_t>(v.storage)] = id;
    reference(storage_buffer(v.storage));  // the program's
  }

  void overwrite(const Arg& arg) {
    let_go(arg.value);
    const int32_t storage = value(arg.becomes).storage;
    current_[static_cast<size_t>(storage)] = arg.becomes;
    buffers_[static_cast<size_t>(storage_buffer(storage))].value = arg.becomes;
  }

  void hold(ValueId id) {
    SimValue& v = value(id);
    becomes_source<Alive>(*this, id);
    becomes_source<Pending>(*this, id);
    v.held = true;
    held_bytes_ += v.bytes;
    reference(storage_buffer(v.storage));
  }

  void hold_if_kept(ValueId id) {
    SimValue& v = value(id);
    offered_[static_cast<size_t>(id)] = 1;
    if (v.held || v.encoded) return;
    const bool root = v.producer == kNone;
    const Choice c = root ? Choice::keep : choice(id);
    if (c != Choice::keep && c != Choice::encode) return;
    if (root && v.bytes == 0) return;
    if (c == Choice::keep) {
      hold(id);
    } else {
      becomes_source<Alive>(*this, id);
      becomes_source<Pending>(*this, id);
      const Encoding& encoding = graph_.values[static_cast<size_t>(id)].encoding;
      v.encoded = true;
      held_bytes_ += encoding.bytes;
      live_ += encoding.bytes;
      spend(encoding.encode_seconds);
      note(0);
    }
    outcome_.kept_bytes = std::max(outcome_.kept_bytes, held_bytes_);
  }

  void let_go(ValueId id) {
    SimValue& v = value(id);
    if (!v.held && !v.encoded) return;
    if (v.held) {
      held_bytes_ -= v.bytes;
      unreference(storage_buffer(v.storage));
    } else {
      const int64_t bytes = graph_.values[static_cast<size_t>(id)].encoding.bytes;
      held_bytes_ -= bytes;
      live_ -= bytes;
    }
    v.held = v.encoded = false;
    ceases_source<Alive>(*this, id);
    ceases_source<Pending>(*this, id);
  }

  void save(HandleId handle) {
    const ValueId id = graph_.handles[static_cast<size_t>(handle)];
    hold_if_kept(id);
    change_need<Alive>(*this, id, 1);
    if (in_backward_) {
      consumed_[static_cast<size_t>(handle)] = 1;
    } else {
      saved_.push_back(handle);
    }
  }

  // -- Backward --

  void begin_backward() {
    in_backward_ = true;
    for (const HandleId h : saved_) {
      if (consumed_[static_cast<size_t>(h)] == 0)
        change_need<Pending>(*this, graph_.handles[static_cast<size_t>(h)], 1);
    }
    saved_.clear();
  }

  void unpack(HandleId handle) {
    if (!in_backward_) begin_backward();
    const ValueId id = graph_.handles[static_cast<size_t>(handle)];
    const int32_t buffer = materialize(id);
    if (buffer != 0 && in_hand_[static_cast<size_t>(handle)] == 0) {
      reference(buffer);
      in_hand_[static_cast<size_t>(handle)] = buffer;
    }
    SimValue& v = value(id);
    --v.uses;
    release(id);
    if (consumed_[static_cast<size_t>(handle)] != 0) return;
    consumed_[static_cast<size_t>(handle)] = 1;
    change_need<Pending>(*this, id, -1);
  }

  void drop(HandleId handle) {
    const ValueId id = graph_.handles[static_cast<size_t>(handle)];
    if (in_backward_ && consumed_[static_cast<size_t>(handle)] == 0) change_need<Pending>(*this, id, -1);
    consumed_[static_cast<size_t>(handle)] = 1;
    change_need<Alive>(*this, id, -1);
    if (in_hand_[static_cast<size_t>(handle)] != 0) unreference(in_hand_[static_cast<size_t>(handle)]);
    in_hand_[static_cast<size_t>(handle)] = 0;
  }

  // The buffer that has a value's content, without computing anything; 0 if none does.
  int32_t content(ValueId id) const {
    const SimValue& v = values_[static_cast<size_t>(id)];
    if (v.rebuilt != 0) return v.rebuilt;
    if (v.storage == kNone || current_[static_cast<size_t>(v.storage)] != id) return 0;
    const int32_t buffer = storage_buffer(v.storage);
    return buffers_[static_cast<size_t>(buffer)].references > 0 ? buffer : 0;
  }

  bool at_hand(ValueId id) const {
    const SimValue& v = values_[static_cast<size_t>(id)];
    return v.producer == kNone || v.encoded || content(id) != 0;
  }

  // A value's buffer, decoded if need be. 0 only for what came from outside.
  int32_t obtain(ValueId id) {
    const int32_t there = content(id);
    SimValue& v = value(id);
    if (there != 0 || !v.encoded) return there;
    v.rebuilt = new_buffer(id);
    spend(graph_.values[static_cast<size_t>(id)].encoding.decode_seconds);
    note(0);
    return v.rebuilt;
  }

  // Leaves one use of the target, so that it is still there when its buffer is referred to.
  int32_t materialize(ValueId target) {
    ++value(target).uses;
    if (at_hand(target)) return obtain(target);
    collect_ops(target);
    for (const OpId id : order_) replay(id);
    return content(target);
  }

  void collect_ops(ValueId target) {
    ++replays_;
    order_.clear();
    stack_.assign(1, target);
    while (!stack_.empty()) {
      const OpId producer = value(stack_.back()).producer;
      stack_.pop_back();
      SimOp& o = op(producer);
      if (o.visited == replays_) continue;
      o.visited = replays_;
      order_.push_back(producer);
      for (const Arg& arg : o.args) {
        if (arg.shape_only) continue;
        ++value(arg.value).uses;
        if (!at_hand(arg.value)) stack_.push_back(arg.value);
      }
    }
    std::sort(order_.begin(), order_.end());
  }

  void replay(OpId id) {
    SimOp& o = op(id);
    const bool shortcut = may_take_shortcut(o);
    scratch_.assign(o.args.size(), 0);
    for (size_t i = 0; i < o.args.size() && !shortcut; ++i) {
      if (o.args[i].becomes != kNone) scratch_[i] = scratch_for(o, i);
    }
    for (const Arg& arg : o.args) {
      if (!arg.shape_only && arg.becomes == kNone) obtain(arg.value);
    }
    running_ = id;
    note(o.working_bytes);
    running_ = kNone;
    spend(shortcut ? o.shortcut_seconds : o.seconds);
    ++outcome_.ops_replayed;
    for (const ValueId v : o.fresh) store(v, new_buffer(v));
    for (size_t i = 0; i < o.args.size(); ++i) {
      if (scratch_[i] != 0 && std::find(scratch_.begin(), scratch_.begin() + static_cast<std::ptrdiff_t>(i),
                                        scratch_[i]) == scratch_.begin() + static_cast<std::ptrdiff_t>(i)) {
        store(o.args[i].becomes, scratch_[i]);
      }
    }
    for (const Arg& arg : o.args) {
      if (arg.shape_only) continue;
      --value(arg.value).uses;
      release(arg.value);
    }
  }

  bool may_take_shortcut(const SimOp& o) const {
    if (o.shortcut_seconds <= 0) return false;
    const auto there = [&](ValueId v) { return content(v) != 0; };
    const auto wanted = [&](const Arg& arg) {
      if (arg.becomes == kNone) return false;
      const SimValue& v = values_[static_cast<size_t>(arg.becomes)];
      return v.uses > 0 || v.pending > 0;
    };
    return std::all_of(o.fresh.begin() + 1, o.fresh.end(), there) && std::none_of(o.args.begin(), o.args.end(), wanted);
  }

  // The buffer an operator writes over: what we rebuilt for it alone, or a copy. With one reference, its taker's.
  int32_t scratch_for(const SimOp& o, size_t argument) {
    const ValueId id = o.args[argument].value;
    int32_t here = 0;
    for (size_t i = 0; i < o.args.size(); ++i) {
      if (o.args[i].value != id) continue;
      if (scratch_[i] != 0) return scratch_[i];
      here += o.args[i].shape_only ? 0 : 1;
    }
    obtain(id);
    SimValue& v = value(id);
    const int32_t waiting = v.pending - (o.pending > 0 ? here : 0);
    if (v.rebuilt == 0 || v.uses > here || waiting > 0 || buffers_[static_cast<size_t>(v.rebuilt)].references > 1) {
      const int32_t copy = new_buffer(id);
      note(0);
      return copy;
    }
    const int32_t taken = std::exchange(v.rebuilt, 0);
    ceases_source<Pending>(*this, id);
    return taken;
  }

  // Takes over one reference to the buffer.
  void store(ValueId id, int32_t buffer) {
    SimValue& v = value(id);
    const bool wanted = v.rebuilt == 0 && !v.held && !v.encoded && (v.uses > 0 || v.pending > 0);
    if (!wanted) {
      unreference(buffer);
      return;
    }
    becomes_source<Pending>(*this, id);
    v.rebuilt = buffer;
    buffers_[static_cast<size_t>(buffer)].value = id;
    if (v.uses == 0) release(id);
  }

  void release(ValueId id) {
    const SimValue& v = value(id);
    if (v.uses > 0 || v.rebuilt == 0 || (v.pending > 0 && choice(id) != Choice::again)) return;
    free_rebuilt(id);
    ceases_source<Pending>(*this, id);
  }

  void free_rebuilt(ValueId id) {
    SimValue& v = value(id);
    if (v.rebuilt != 0) unreference(std::exchange(v.rebuilt, 0));
  }

  const Graph& graph_;
  const std::vector<bool> keepable_;
  std::vector<SimValue> first_values_;
  std::vector<SimOp> first_ops_;
  int32_t storages_ = 0;
  size_t first_unpack_ = 0;  // an event: where forward has ended

  const Choices* choices_ = nullptr;
  std::vector<SimValue> values_;
  std::vector<SimOp> ops_;
  std::vector<Buffer> buffers_;
  std::vector<int32_t> free_buffers_;
  std::vector<ValueId> current_;  // by storage: whose content it has
  std::vector<HandleId> saved_;   // in forward
  std::vector<char> consumed_;    // by handle: unpacked, or gone
  std::vector<int32_t> in_hand_;  // by handle: the buffer its node has unpacked
  std::vector<OpId> order_;       // of one replay
  std::vector<ValueId> stack_;    //
  std::vector<int32_t> scratch_;  // of one op
  demand::Work alive_work_, pending_work_;
  uint32_t replays_ = 0;
  int64_t live_ = 0;  // of the tape's values, with what follows among it
  int64_t held_bytes_ = 0, rebuilt_bytes_ = 0;
  int64_t other_ = 0;
  size_t at_ = 0;
  OpId running_ = kNone;
  int64_t event_peak_ = 0;
  bool in_backward_ = false, stopped_ = false, watching_ = false;
  int64_t give_up_bytes_ = INT64_MAX;
  double give_up_seconds_ = 1e300;
  Price price_;
  int64_t excess_ = 0;  // of all events so far
  Outcome outcome_;
  std::vector<Live> seen_;

  static constexpr size_t kFew = 8;
  Turn turn_;
  std::vector<char> offered_;     // by value: asked whether it is to be held, in forward
  std::vector<size_t> released_;  // by storage: the event of it; none yet: the end
  std::vector<ValueId> changed_;
};

Simulator::Simulator(const Graph& graph) : state_(std::make_unique<State>(graph)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

Outcome Simulator::run(const Choices& choices, bool event_peaks, int64_t give_up_bytes, double give_up_seconds) {
  return state_->run(choices, event_peaks, give_up_bytes, give_up_seconds);
}

Outcome Simulator::run_near(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->run_near(choices, give_up_seconds, price);
}

double Price::excess(int64_t peak_bytes, double sum_of_excesses, size_t events) const {
  const auto most = static_cast<double>(std::max<int64_t>(0, peak_bytes - budget_bytes));
  return most + spread * sum_of_excesses / static_cast<double>(std::max<size_t>(1, events));
}

std::vector<Simulator::Live> Simulator::live_at(const Choices& choices, size_t event) {
  return state_->live_at(choices, event);
}

}  // namespace retrace::plan
