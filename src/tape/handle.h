// What autograd holds instead of a saved tensor.
#pragma once

#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <optional>

#include "libtorch/compat.h"
#include "tape/recycled.h"
#include "tape/shared_tape.h"

namespace retrace {

struct Scope;

// Holds either the tensor itself (anything the tape did not make, or must not forget), or a value of the tape: held
// there if the policy keeps it, forgotten and rebuilt otherwise. Checks the tensor's version at unpack, as autograd
// does for tensors that it saves without hooks.
class Handle final : public compat::SavedVariableHooks, public Recycled<Handle> {
 public:
  explicit Handle(Scope& scope) : scope_(&scope) {}  // call_pack_hook() must be the next thing to happen
  ~Handle() override;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;

  // For the tape.
  ValueId value() const { return value_; }
  bool is_unchanged() const;   // the tensor, as far as its version says
  void follow(ValueId value);  // from now on it stands for this content of the same storage
  ValueId holds() const { return holds_; }
  void hold_as(Tape& tape, ValueId value);  // its tensor has become this value
  int32_t timeline_id() const { return timeline_id_; }
  void set_timeline_id(int32_t id) { timeline_id_ = id; }
  struct Positions {
    size_t among_all = 0, of_value = 0;
  };
  Positions& positions() { return positions_; }  // in the tape's table
  bool unpacked() const { return unpacked_; }    // at least once
  const Geometry& geometry() const { return *geometry_; }
  const std::optional<uint64_t>& fingerprint() const { return fingerprint_; }
  Counters* counters() const { return counters_; }
  bool consumed_in(uint64_t round) const;
  void consume(uint64_t round) { rounds_.push_back(round); }
  bool forget_round(uint64_t round);  // true if the round had consumed it

 private:
  void save(const at::Tensor& tensor, Scope& scope);
  void keep_tensor(const at::Tensor& tensor, Tape& tape, ValueId id);
  at::Tensor unpack_value();
  void check_version() const;

  Scope* scope_;  // only until packed
  std::shared_ptr<SharedTape> tape_;
  at::Tensor tensor_;
  ValueId value_ = kNone;
  ValueId holds_ = kNone;               // the tape's value whose bytes tensor_ keeps alive
  const Geometry* geometry_ = nullptr;  // in the tape's table
  c10::VariableVersion version_;
  uint32_t saved_version_ = 0;
  bool orphan_ = false;                // see tape/no_grad_views.h
  std::atomic<bool> unpacked_{false};  // several threads may differentiate one graph
  std::optional<uint64_t> fingerprint_;
  Counters* counters_ = nullptr;  // the tape keeps them alive
  int32_t timeline_id_ = -1;
  Positions positions_;
  OpId saved_at_ = kNone;  // how many ops had been recorded when it was saved
  c10::SmallVector<uint64_t, 1> rounds_;
};

}  // namespace retrace
