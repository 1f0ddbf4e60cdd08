// Watches a plain run for what Retrace cannot be expected to survive, so that everything else is its fault.
//
// - A tensor came into a region from outside and was written later, outside of it: nothing can be rebuilt from it. Plain
//   autograd minds only if it had saved that very tensor. Writes inside the same outermost scope are recorded and give no
//   such excuse.
// - The same if a pointer wrote it after it was read: nobody is asked before, so the old content is gone.
// - The same for a tensor made inside, where a policy may have chosen to keep it rather than how to rebuild it, or which
//   cannot be rebuilt: a pointer wrote it, an operator made it that is not run again or took it and may have written it, or
//   a backward in between let go of what it was made from.
// - BatchNorm wrote such a tensor: without a new version, so nobody can notice, and plain autograd itself goes on with
//   what the tensor has become.
// - A scope read a view that was made before it, without gradients, of a tensor that has them. It claims to be a leaf that
//   requires grad but has nowhere to accumulate one; LibTorch asserts when it is saved under saved-tensor hooks.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include <torch/torch.h>

#include "program.h"

namespace retrace::random {

class ScopeWatch {
 public:
  void enter_scope(bool may_keep);  // whether its policy may keep anything
  void leave_scope();

  void defined(const torch::Tensor& tensor);
  void cannot_be_rebuilt(const torch::Tensor& tensor) { life_of(tensor).may_be_kept |= scope_ != 0; }
  void read(const torch::Tensor& tensor);
  void written(const torch::Tensor& tensor);
  void backward_ran();
  // What a write to the tensor would be now, if it moved no version counter.
  Lateness lateness_of_write(const torch::Tensor& tensor);
  void pointer_written(const torch::Tensor& tensor);
  void written_silently(const torch::Tensor& tensor) { silent_outside_write_ |= has_other_reader(tensor); }

  bool outside_write() const { return outside_write_; }
  bool silent_outside_write() const { return silent_outside_write_; }
  bool orphan_view() const { return orphan_view_; }

 private:
  struct Life {
    c10::weak_intrusive_ptr<c10::StorageImpl> pin;  // the address is not reused while we remember it
    int birth_scope;
    bool may_be_kept;
    std::set<int> readers;  // scopes other than the birth scope
    std::set<int> users;    // scopes in which an operator read it or autograd saved it, the birth scope among them
  };
  Life& life_of(const torch::Tensor& tensor);
  bool has_other_reader(const torch::Tensor& tensor);

  bool may_keep() const { return !may_keep_.empty() && may_keep_.back(); }

  std::vector<bool> may_keep_;  // per open scope
  int scope_ = 0;               // the outermost scope we are in; 0 outside
  int scopes_ = 0;
  bool outside_write_ = false;
  bool silent_outside_write_ = false;
  bool orphan_view_ = false;
  std::unordered_map<c10::StorageImpl*, Life> lives_;
  std::vector<std::pair<c10::weak_intrusive_ptr<c10::TensorImpl>, int>> orphans_;  // with their birth scope
};

}  // namespace retrace::random
