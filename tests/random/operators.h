// The operator table: for each kind of statement, how to propose one that fits the values at hand, and how to run it.
#pragma once

#include <string_view>
#include <vector>

#include <torch/torch.h>

#include "dice.h"
#include "program.h"

namespace retrace::random {

using Results = std::vector<torch::Tensor>;

// What one statement sees when it runs.
struct Call {
  const Statement& statement;
  std::vector<torch::Tensor> in;
  at::Generator generator;                   // the program's own, beside the default one
  const std::vector<torch::Tensor>* leaves;  // those that require grad
  class Scopes* scopes = nullptr;            // for work on another thread; null while a program is being made

  int64_t i(size_t k) const { return statement.ints.at(k); }
  double r(size_t k) const { return statement.reals.at(k); }
};

// The values a new statement may use, while a program is being made. The generator runs what it writes, so real tensors
// with real shapes are at hand and no shape inference is needed.
class Chooser {
 public:
  Chooser(Dice& dice_in, const std::vector<torch::Tensor>& values) : dice(dice_in), values_(values) {}

  Dice& dice;
  int leaves = 0;  // the first values: what the program made from nothing

  const torch::Tensor& at(int value) const { return values_[static_cast<size_t>(value)]; }
  int values() const { return static_cast<int>(values_.size()); }

  // Adds an operand that satisfies the predicate; false if there is none. Prefers what carries gradients, and of that
  // what was computed lately, so that programs grow deep rather than wide.
  template <class Predicate>
  bool operand(Statement& statement, Predicate fits) {
    std::vector<int> all, trained, computed;
    for (size_t v = 0; v < values_.size(); ++v) {
      const torch::Tensor& t = values_[v];
      if (!t.defined() || !fits(t)) continue;
      all.push_back(static_cast<int>(v));
      if (t.requires_grad()) (t.is_leaf() ? trained : computed).push_back(static_cast<int>(v));
    }
    if (all.empty()) return false;
    if (!computed.empty() && dice.chance(0.6)) {
      statement.in.push_back(recent_of(computed));
    } else {
      statement.in.push_back(dice.one_of(!trained.empty() && dice.chance(0.6) ? trained : all));
    }
    return true;
  }
  const torch::Tensor& operand_of(const Statement& statement, size_t k) const { return at(statement.in[k]); }

 private:
  int recent_of(const std::vector<int>& values) {
    const double u = dice.unit();
    const auto back = static_cast<size_t>(u * u * static_cast<double>(values.size()));
    return values[values.size() - 1 - back];
  }

  const std::vector<torch::Tensor>& values_;
};

enum class Effect {
  pure,             // defines new values (views count)
  unrepeatable,     // the same, by an operator that Retrace does not run again: what it makes is held
  writes,           // writes in[0], through whatever views it is
  autograd,         // runs a backward pass or changes gradients
  writes_silently,  // writes in[0] and moves no version counter
};

struct Operator {
  const char* name;
  int weight;  // how often the generator tries it
  Effect effect;
  bool (*propose)(Chooser&, Statement&);  // fills operands and parameters; false if nothing at hand fits
  Results (*run)(const Call&);
};

const std::vector<Operator>& operator_table();
const std::vector<Operator>& wild_table();             // what only wild programs have
const Operator* find_operator(std::string_view name);  // null if unknown

// The families the table is made of, one file each.
std::vector<Operator> pointwise_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> in_place_operators();
std::vector<Operator> view_operators();
bool makes_view(const std::string& op);  // one of these
std::vector<Operator> layout_operators();
std::vector<Operator> network_operators();
std::vector<Operator> random_operators();
std::vector<Operator> creation_operators();
std::vector<Operator> custom_function_operators();
std::vector<Operator> autograd_operators();
std::vector<Operator> silent_write_operators();   // wild
std::vector<Operator> unannotated_operators();    // wild
std::vector<Operator> wasteful_operators();       // wild
std::vector<Operator> second_thread_operators();  // wild

// Leaves are made from their statement alone, without LibTorch's random numbers.
torch::Tensor make_leaf(const Statement& leaf);

// Calls `visit` with the place of each element in memory, counted in elements from the first, in logical order. Plain
// pointers: at 16,384 elements and without optimisation the tensor's own accessors take most of the time.
template <class Visit>
void for_each_offset(const torch::Tensor& t, Visit visit) {
  const int64_t dims = t.dim();
  const int64_t* sizes = t.sizes().data();
  const int64_t* strides = t.strides().data();
  const int64_t n = t.numel();
  std::vector<int64_t> indices(static_cast<size_t>(dims) + 1, 0);
  int64_t* index = indices.data();
  int64_t offset = 0;
  for (int64_t k = 0; k < n; ++k) {
    visit(offset);
    for (int64_t d = dims - 1; d >= 0; --d) {
      offset += strides[d];
      if (++index[d] < sizes[d]) break;
      offset -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

// What the families' proposals are written with.
inline bool is_number(const torch::Tensor& t) { return t.is_floating_point() || t.is_complex(); }
inline bool is_real(const torch::Tensor& t) { return t.is_floating_point(); }
inline bool is_index(const torch::Tensor& t) { return t.scalar_type() == torch::kLong; }
inline bool is_mask(const torch::Tensor& t) { return t.scalar_type() == torch::kBool; }
inline bool is_plain_number(const torch::Tensor& t) { return is_number(t) && t.numel() > 0; }

bool propose_number(Chooser& chooser, Statement& statement);       // in = one floating or complex value
bool propose_real(Chooser& chooser, Statement& statement);         // in = one floating value
bool propose_anything(Chooser& chooser, Statement& statement);     // in = one value of any type
bool propose_two_numbers(Chooser& chooser, Statement& statement);  // in = two of the same shape
bool propose_two_reals(Chooser& chooser, Statement& statement);    // and of the same type
bool propose_number_and_dim(Chooser& chooser,
                            Statement& statement);  // in = one with a dimension, ints = that dimension
bool propose_real_and_dim(Chooser& chooser, Statement& statement);

}  // namespace retrace::random
