// Tells whether Retrace may refuse a program. A tensor that came into a region from outside and was written later,
// outside of it, cannot be used to rebuild; plain autograd minds only if it had saved that very tensor. Writes inside the
// same outermost scope are recorded and give no such excuse.
#pragma once

#include <set>
#include <unordered_map>
#include <vector>

#include <torch/torch.h>

namespace retrace::random {

class OutsideWrites {
 public:
  void enter_scope() { depth_++ == 0 ? scope_ = ++scopes_ : 0; }
  void leave_scope() { --depth_ == 0 ? scope_ = 0 : 0; }

  void defined(const torch::Tensor& tensor);
  void read(const torch::Tensor& tensor);
  void written(const torch::Tensor& tensor);

  bool happened() const { return happened_; }

 private:
  struct Life {
    c10::weak_intrusive_ptr<c10::StorageImpl> pin;  // the address is not reused while we remember it
    int birth_scope;
    std::set<int> readers;                          // scopes other than the birth scope
  };
  Life& life_of(const torch::Tensor& tensor);

  int depth_ = 0;
  int scope_ = 0;   // the outermost scope we are in; 0 outside
  int scopes_ = 0;
  bool happened_ = false;
  std::unordered_map<c10::StorageImpl*, Life> lives_;
};

}  // namespace retrace::random
