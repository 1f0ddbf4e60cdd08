#include "tape/timeline.h"

#include <algorithm>

namespace retrace {
namespace {

// So that a program which holds thousands of tensors does not pay for each of them at every event.
constexpr size_t kLooksPerEvent = 512;

}  // namespace

Timeline::Timeline(std::shared_ptr<const NameTable> names, const WrittenStep& like, bool follows)
    : like_(like), follows_(follows), blocks_(std::in_place), peak_(std::in_place), description_(std::move(names)) {
  if (like.graph && !follows) {
    graph_.ops.reserve(like.graph->ops.size());
    graph_.values.reserve(like.graph->values.size());
    graph_.handles.reserve(like.graph->handles.size());
    graph_.events.reserve(like.graph->events.size());
    prefix_hashes_.reserve(like.graph->ops.size());
    known_.reserve(like.graph->values.size());
  }
  const memory::Bytes live = memory::live();
  graph_.start_bytes = live.total();
  graph_.weight_bytes = live[memory::Owner::weights];
}

void Timeline::close_window() {
  bytes_.end_window();
  if (!graph_.events.empty()) bytes_.add_ended_to(graph_.events.back());
}

// What only the tape refers to any more, the program has let go of.
void Timeline::note_releases(Tape& tape) {
  close_window();
  find_externals_left(tape);
  size_t looks = 0;
  for (size_t i = in_program_.size(); i-- > 0 && looks < kLooksPerEvent; ++looks) {
    const StorageRecord& record = tape.storage(in_program_[i]);
    const Value& v = tape.value(record.current);
    if (static_cast<int64_t>(record.pin.use_count()) > v.holders) continue;
    describe(tape, record.current);
    add_event(plan::EventKind::release, record.current);
    ++releases_;
    in_program_[i] = in_program_.back();
    in_program_.pop_back();
  }
}

// Weights are among them, so they take turns.
void Timeline::find_externals_left(const Tape& tape) {
  for (size_t looks = 0; looks < kLooksPerEvent && !held_externals_.empty(); ++looks) {
    if (next_look_ >= held_externals_.size()) {
      if (looks >= held_externals_.size()) break;  // at all of them
      next_look_ = 0;
    }
    const ValueId id = held_externals_[next_look_];
    const Value& v = tape.value(id);
    if (v.held && v.held.is_shared()) {
      ++next_look_;
      continue;
    }
    if (v.held && !bytes_.has_copy(id)) bytes_.copied(id, v.bytes);
    held_externals_[next_look_] = held_externals_.back();
    held_externals_.pop_back();
  }
}

void Timeline::describe(Tape& tape, ValueId id) {
  const auto at = static_cast<size_t>(id);
  if (at >= known_.size()) {
    known_.resize(at + 1);
    graph_.values.resize(at + 1);
  }
  if (std::exchange(known_[at], 1)) return;
  const Value& v = tape.value(id);
  plan::Value& described = graph_.values[at];
  described.bytes = v.bytes;
  described.storage = number_of(v.storage);
  described.external = v.external;
  described.has_gradient = at::isFloatingType(v.dtype) || at::isComplexType(v.dtype);
  description_.add_value(id, tape.storage(v.storage).pin._unsafe_get_target());
}

// The tape also numbers storages that hold no value of their own (what an unpack gave out); the graph has no more
// storages than values.
int32_t Timeline::number_of(StorageId storage) {
  const auto at = static_cast<size_t>(storage);
  if (at >= storage_numbers_.size()) storage_numbers_.resize(at + 1, plan::kNone);
  if (storage_numbers_[at] == plan::kNone) storage_numbers_[at] = storages_++;
  return storage_numbers_[at];
}

void Timeline::op_begins(Tape& tape) {
  if (follows_) {
    bytes_.end_window();
  } else {
    note_releases(tape);
  }
  bytes_.op_begins();
}

void Timeline::op_was_prepared() {
  bytes_.end_window();
  bytes_.op_begins();
}

void Timeline::op_made_nothing() {
  if (!graph_.events.empty()) bytes_.add_ended_to(graph_.events.back());
}

int32_t Timeline::op_made(Tape& tape, const Op& op, at::TensorList results, bool replayable) {
  if (follows_) return static_cast<int32_t>(ops_met_ - 1);
  const auto id = static_cast<plan::OpId>(graph_.ops.size());
  plan::Op& recorded = graph_.ops.emplace_back();
  recorded.name = op.name();
  recorded.seconds = op.seconds;
  recorded.shortcut_seconds = op.shortcut_seconds;
  recorded.working_bytes = working_bytes_;
  bool in_parts = false;
  for (const TensorArg& arg : op.args) {
    describe(tape, arg.value);
    recorded.args.push_back({arg.value, arg.becomes, arg.shape_only, arg.has_gradient});
    in_parts |= arg.geometry->bytes() != tape.value(arg.value).bytes;
    if (arg.becomes == kNone) continue;
    describe(tape, arg.becomes);
    graph_.values[static_cast<size_t>(arg.becomes)].producer = replayable && !arg.shape_only ? id : plan::kNone;
  }
  for (size_t i = 0; i < op.args.size() && in_parts; ++i) recorded.read_bytes.push_back(op.args[i].geometry->bytes());
  for (const FreshOutput& output : op.fresh) {
    describe(tape, output.value);
    recorded.fresh.push_back(output.value);
    graph_.values[static_cast<size_t>(output.value)].producer = replayable ? id : plan::kNone;
    in_program_.push_back(tape.value(output.value).storage);
  }
  description_.add_op(recorded, results);
  bytes_.end_window();
  graph_.events.push_back(bytes_.op_made(id));
  return id;
}

void Timeline::shortcut_took(const Op& op, double seconds) {
  if (op.timeline_id == kNone) return;
  if (!follows_) graph_.ops[static_cast<size_t>(op.timeline_id)].shortcut_seconds = seconds;
  shortcuts_.emplace_back(op.timeline_id, seconds);
}

int32_t Timeline::saved(Tape& tape, ValueId value) {
  if (follows_) {
    const auto& handles = like_.graph->handles;
    const bool same = saves_ < handles.size() && handles[saves_] == value;
    if (is_next(tape, plan::EventKind::save, same ? static_cast<int32_t>(saves_) : plan::kNone))
      return static_cast<int32_t>(saves_++);
  }
  describe(tape, value);
  const auto handle = static_cast<plan::HandleId>(graph_.handles.size());
  graph_.handles.push_back(value);
  close_window();
  add_event(plan::EventKind::save, handle);
  return handle;
}

void Timeline::unpack_begins(Tape& tape, int32_t handle) {
  had_backward_ = true;
  if (follows_ && is_next(tape, plan::EventKind::unpack, handle)) return;
  note_releases(tape);
  add_event(plan::EventKind::unpack, handle);
}

void Timeline::unpack_ended() {
  if (!follows_) bytes_.end_window();
}

void Timeline::dropped(Tape& tape, int32_t handle) {
  if (follows_ && is_next(tape, plan::EventKind::drop, handle)) return;
  note_releases(tape);
  add_event(plan::EventKind::drop, handle);
}

uint64_t Timeline::begin_backward() { return plan::mixed(hash_, ++backwards_); }

void Timeline::backward_begins(bool records) {
  if (follows_) return;
  const auto now = static_cast<int32_t>(graph_.events.size());
  graph_.backwards.push_back({now, now, records});
}

void Timeline::backward_ended() {
  if (!ended_ && !graph_.backwards.empty()) graph_.backwards.back().end = static_cast<int32_t>(graph_.events.size());
}

void Timeline::ran_backward(std::shared_ptr<const BackwardOps> ops, int32_t events_before) {
  if (follows_) return;
  description_.add_backward(std::move(ops), events_before);
}

void Timeline::holds_external(ValueId value) {
  if (!ended_) held_externals_.push_back(value);
}

void Timeline::copy_gone(ValueId value) {
  if (!ended_) bytes_.copy_gone(value);
}

void Timeline::became_root(Tape& tape, ValueId value) {
  const auto at = static_cast<size_t>(value);
  if (follows_) {
    const auto& values = like_.graph->values;
    if (at < values.size() && values[at].producer == plan::kNone) return;
    write_out(tape);
  }
  if (at < graph_.values.size()) graph_.values[at].producer = plan::kNone;
}

bool Timeline::looked_for_ways(ValueId value) {
  const auto at = static_cast<size_t>(value);
  if (at >= looked_for_ways_.size()) looked_for_ways_.resize(at + 1);
  return std::exchange(looked_for_ways_[at], 1) != 0;
}

const std::vector<plan::Way>* Timeline::known_ways(ValueId value) const {
  const auto at = static_cast<size_t>(value);
  if (follows_) return at < like_.graph->values.size() ? &like_.graph->values[at].ways : nullptr;
  return at < looked_for_ways_.size() && looked_for_ways_[at] ? &graph_.values[at].ways : nullptr;
}

void Timeline::can_be_held(ValueId value, plan::Way way) {
  graph_.values[static_cast<size_t>(value)].ways.push_back(std::move(way));
}

void Timeline::end(Tape& tape, double seconds) {
  if (std::exchange(ended_, true)) return;
  seconds_ = seconds;
  if (follows_) is_next(tape, plan::EventKind::end, 0);
  if (!follows_) end_graph(tape);
  ended_peak_bytes_ = peak_->bytes();
  peak_.reset();
  blocks_.reset();  // what outlives the step is for the next one like anything else from outside
}

void Timeline::end_graph(Tape& tape) {
  note_releases(tape);
  add_event(plan::EventKind::end, 0);
  if (!graph_.backwards.empty()) {  // one that has not ended yet
    plan::Backward& last = graph_.backwards.back();
    if (last.end == last.begin) last.end = static_cast<int32_t>(graph_.events.size());
  }
  graph_.seconds = seconds_;
  graph_.weight_bytes = std::max(graph_.weight_bytes, memory::live()[memory::Owner::weights]);
  graph_.signature = prefix_hashes_.empty() ? 0 : prefix_hashes_.back();
}

void Timeline::track(const c10::Storage& storage) {
  if (blocks_) blocks_->track(storage);
}

// While the step is open the last event's window is too. And weights are known as such when an operator has read them,
// so more may have been seen.
plan::Graph Timeline::graph() const {
  if (follows_) return *like_.graph;
  plan::Graph graph = graph_;
  if (ended_) return graph;
  graph.weight_bytes = std::max(graph.weight_bytes, memory::live()[memory::Owner::weights]);
  if (!graph.events.empty()) bytes_.add_open_to(graph.events.back());
  return graph;
}

uint64_t Timeline::add_hash(Tape& tape, const Op& op, at::IntArrayRef result_bytes) {
  hash_ = plan::mixed(hash_, op.traits->name_hash);
  for (const TensorArg& arg : op.args)  // backward is another if nobody wants a gradient
    hash_ = plan::mixed(hash_, static_cast<uint64_t>(arg.value) << 1u | (arg.has_gradient ? 1u : 0u));
  for (const int64_t bytes : result_bytes) hash_ = plan::mixed(hash_, static_cast<uint64_t>(bytes));
  if (follows_) {
    const auto& hashes = *like_.prefix_hashes;
    const bool same = ops_met_ < hashes.size() && hashes[ops_met_] == hash_;
    is_next(tape, plan::EventKind::op, same ? static_cast<int32_t>(ops_met_) : plan::kNone);
  }
  ++ops_met_;
  if (!follows_) prefix_hashes_.push_back(hash_);
  return hash_;
}

}  // namespace retrace
