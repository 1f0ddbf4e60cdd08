// A random program as data: a flat list of statements over numbered values. Nothing here runs anything, so a program
// can be printed, cut down and run again in another way.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace retrace::random {

// One line. Operators and scopes share the form; `op` names a row of the operator table (operators.h) or one of
//   leaf         ints = dtype, layout, requires_grad, data seed, sizes...       out = the leaf
//   region       ints = policy..., a retrace::checkpoint until the matching end
//   step         ints = policy..., session number: one step of that session until the matching end
//   no_grad      until the matching end
//   enable_grad  until the matching end
//   end
// A write that autograd cannot see (Effect::writes_silently) is called late_... if an operator of the open scope has read
// the tensor or autograd has saved it there, and outside_... if that was in a scope that has ended.
struct Statement {
  std::string op;
  std::vector<int> in;   // value numbers
  std::vector<int> out;  // value numbers this line defines; empty for a line that only writes in[0] or calls backward
  std::vector<int64_t> ints;
  std::vector<double> reals;
};

// Layout of the ints of `region` and `step`.
enum ScopeInts : size_t { kPolicyKind, kPolicyParameter, kVerify, kSessionNumber };
enum PolicyKind : int64_t {
  kKeepAll,
  kRecomputeAll,
  kEvery,
  kSelective,
  kSelectiveDefault,
  kCustom,
  kPolicyKinds,
  kBudget = kPolicyKinds,  // only for a step with nothing around it; its parameter is a BudgetParameter
  kBudgetOfFirstStep       // likewise, wild programs only: a budget in percent, as Retrace itself understands it
};

// A budget in percent of what the plain run takes at its fullest, packed into a policy's parameter.
struct BudgetParameter {
  int64_t percent = 100;
  bool best_effort = false;

  int64_t packed() const { return percent * 2 + (best_effort ? 1 : 0); }
  static BudgetParameter of(const Statement& scope) {
    const int64_t packed = scope.ints[kPolicyParameter];
    return {packed / 2, packed % 2 != 0};
  }
};

// What a write that moves no version counter may meet, in rising order of what it asks of Retrace.
enum class Lateness { fresh, late, outside };
std::string late_name(const std::string& op, Lateness lateness);  // "late_pointer_write"
Lateness lateness_of(const std::string& op);
std::string without_lateness(const std::string& op);

struct Program {
  uint64_t seed = 0;  // of the default generator when the program starts
  int values = 0;     // value numbers are below this
  std::vector<Statement> statements;
  std::set<int> held;  // values the user keeps until the end; others die after their last use
};

bool opens_scope(const Statement& statement);
bool closes_scope(const Statement& statement);

// The index of the `end` that matches the scope opened at `begin`, or the number of statements if it is missing.
size_t matching_end(const Program& program, size_t begin);

// For each value the last statement that mentions it; -1 for values never mentioned.
std::vector<int> last_uses(const Program& program);

// Everything but the leaves in one step of session 0, instead of the steps it has. Its checkpoints stay.
Program in_one_step(const Program& program, int64_t policy, int64_t parameter);

std::string policy_text(const Statement& scope);
std::string to_text(const Program& program);

}  // namespace retrace::random
