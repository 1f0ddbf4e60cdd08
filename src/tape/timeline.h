// The step as the planner will see it, written down while it happens (see src/plan/graph/graph.h).
//
// Most steps do what the one before did, with the same bytes live at the start. Such a step is not written down again:
// its timeline follows the earlier step's, and only looks whether each event is the next one of that. At the first
// event that is not, it writes out what was the same so far, and goes on as any other (timeline_follows.cpp).
//
// Value ids are the tape's own. All functions are called with the tape locked.
#pragma once

#include "memory/allocator.h"
#include "plan/graph/graph.h"
#include "tape/description.h"
#include "tape/event_bytes.h"
#include "tape/tape.h"

namespace retrace {

// A step that was written down.
struct WrittenStep {
  std::shared_ptr<const plan::Graph> graph;  // null: none yet
  std::shared_ptr<const std::vector<uint64_t>> prefix_hashes;
  std::shared_ptr<const Description> description;
};

class Timeline {
 public:
  // `like`: a step that this one may be like, so that memory for as many records is there from the start. `follows`: it
  // is expected to be like that.
  Timeline(std::shared_ptr<const NameTable> names, const WrittenStep& like, bool follows);

  // The step has been like `like` so far, and nothing was written down. If it has ended: from beginning to end.
  bool follows() const { return follows_; }

  // An operator is about to run; it ran (its results are not on the tape yet); what it made is on the tape. An operator
  // that only made a view ends with op_made_nothing().
  void op_begins(Tape& tape);
  void op_was_prepared();  // before it ran, memory was taken that is not part of what it takes itself
  void op_ran() { working_bytes_ = bytes_.op_ran(); }
  void op_made_nothing();
  int32_t op_made(Tape& tape, const Op& op, at::TensorList results, bool replayable);  // returns the op's id
  void shortcut_took(const Op& op, double seconds);

  int32_t saved(Tape& tape, ValueId value);  // returns the handle's id
  void unpack_begins(Tape& tape, int32_t handle);
  void unpack_ended();
  void dropped(Tape& tape, int32_t handle);

  // The tape has made a copy of content that was about to be overwritten, which the plain program does not.
  void copied(ValueId value, int64_t bytes) { bytes_.copied(value, bytes); }
  // The tape holds content from outside the step. Once nobody else refers to it (an old gradient), it is like a copy.
  void holds_external(ValueId value);
  void copy_gone(ValueId value);

  void became_root(Tape& tape, ValueId value);
  bool can_be_rebuilt(ValueId value) const {
    return written().values[static_cast<size_t>(value)].producer != plan::kNone;
  }
  void can_be_held(ValueId value, plan::Way way);
  bool looked_for_ways(ValueId value);                            // false the first time
  const std::vector<plan::Way>* known_ways(ValueId value) const;  // null if nobody looked

  // A backward begins. Returns its kind, which is the same in steps that did the same so far. The operators that a
  // backward ran are told by ran_backward(): its own, or those of an earlier one of its kind.
  uint64_t begin_backward();
  void backward_begins(bool records);
  void backward_ended();
  void ran_backward(std::shared_ptr<const BackwardOps> ops, int32_t events_before);
  // Events so far, without releases: when a release is noticed is no property of the step.
  int32_t lasting_events() const { return static_cast<int32_t>(graph_.events.size()) - releases_; }

  void end(Tape& tape, double seconds);  // nothing is written down after this
  size_t expected_ops() const { return like_.graph ? like_.graph->ops.size() : 0; }
  size_t expected_values() const { return like_.graph ? like_.graph->values.size() : 0; }
  bool had_backward() const { return had_backward_; }
  double seconds() const { return seconds_; }  // of a step that has ended, rebuilding excluded

  // Of each shortcut that was taken: the operator's id, and how long it took.
  const std::vector<std::pair<int32_t, double>>& shortcuts() const { return shortcuts_; }

  // Hashes of all operators and sizes up to each operator: equal as long as two steps do the same. Of a step that has
  // ended.
  const std::vector<uint64_t>& prefix_hashes() const { return follows_ ? *like_.prefix_hashes : prefix_hashes_; }
  size_t ops_met() const { return ops_met_; }
  uint64_t add_hash(Tape& tape, const Op& op, at::IntArrayRef result_bytes);

  void track(const c10::Storage& storage);  // from now on its bytes are the tape's

  Description take_description() { return std::move(description_); }  // of a step that has ended
  plan::Graph graph() const;                                          // without its description
  plan::Graph take_graph() { return std::move(graph_); }              // likewise, of a step that has ended
  // Of everything live, during the step.
  int64_t peak_bytes() const { return peak_ ? peak_->bytes() : ended_peak_bytes_; }

 private:
  const plan::Graph& written() const { return follows_ ? *like_.graph : graph_; }
  // Whether this is the next event of the step it follows. If not, it stops following.
  bool is_next(Tape& tape, plan::EventKind kind, int32_t id);
  void write_out(Tape& tape);  // writes down what was the same so far
  void find_released(const Tape& tape);
  void add_event(plan::EventKind kind, int32_t id) { graph_.events.push_back(bytes_.event(kind, id)); }
  void close_window();
  void note_releases(Tape& tape);
  void find_externals_left(const Tape& tape);
  void end_graph(Tape& tape);
  void describe(Tape& tape, ValueId value);
  int32_t number_of(StorageId storage);

  const WrittenStep like_;
  bool follows_;
  size_t ops_met_ = 0;            // all that were hashed
  size_t event_ = 0, saves_ = 0;  // the next event and save of `like_`, while it follows
  uint64_t hash_ = 1;             // of all operators so far
  double seconds_ = 0;
  std::optional<memory::TapeBlocks> blocks_;  // until the step ends
  std::optional<memory::PeakWatch> peak_;     // likewise
  EventBytes bytes_;
  int64_t ended_peak_bytes_ = 0;
  plan::Graph graph_;
  Description description_;
  int32_t releases_ = 0;
  uint64_t backwards_ = 0;
  int64_t working_bytes_ = 0;             // of the running op
  std::vector<StorageId> in_program_;     // storages the program still refers to
  std::vector<char> known_;               // by value
  std::vector<int32_t> storage_numbers_;  // in the graph, by the tape's storage
  int32_t storages_ = 0;                  // of the graph
  std::vector<ValueId> held_externals_;   // that the program still referred to, and some that are held no longer
  size_t next_look_ = 0;                  // at those
  std::vector<uint64_t> prefix_hashes_;
  std::vector<char> looked_for_ways_;
  std::vector<std::pair<int32_t, double>> shortcuts_;
  bool had_backward_ = false;
  bool ended_ = false;
};

}  // namespace retrace
