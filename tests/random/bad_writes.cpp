// Autograd refuses a backward whose saved tensors were written. Random in-place statements hit that often; this keeps
// as many of them as plain autograd allows.
#include <retrace/memory.h>

#include "generate.h"
#include "may_leak.h"
#include "operators.h"

namespace retrace::random {

namespace {

bool runs(const Program& program) { return !run_plain(program).thrown; }

bool frees_graph(const Statement& s) { return s.op == "backward" && s.ints.at(0) == 0; }

bool risky(const Statement& s) {
  const Operator* op = find_operator(s.op);
  return frees_graph(s) || s.op == "update" || (op != nullptr && op->effect == Effect::writes);
}

// The program with only the risky statements that are allowed. A backward that would free its graph retains it instead.
Program with_allowed(const Program& program, const std::vector<bool>& allowed) {
  Program tame = program;
  tame.statements.clear();
  for (size_t i = 0; i < program.statements.size(); ++i) {
    Statement s = program.statements[i];
    if (risky(s) && !allowed[i]) {
      if (!frees_graph(s)) continue;
      s.ints[0] = 1;
    }
    tame.statements.push_back(std::move(s));
  }
  return tame;
}

}  // namespace

Outcome run_plain(const Program& program) {
  const MayLeak may_leak(true);
  const int64_t before = memory::live_bytes();
  memory::reset_peak();
  Outcome outcome;
  {
    const auto scopes = plain_scopes();
    outcome = Machine(program, *scopes).run();
  }
  outcome.peak_bytes = memory::peak_bytes() - before;
  outcome.leaked_bytes = memory::live_bytes() - before;
  return outcome;
}

bool remove_bad_writes(Program& program) {
  if (runs(program)) return true;
  std::vector<bool> allowed(program.statements.size(), false);
  if (!runs(with_allowed(program, allowed))) return false;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (!risky(program.statements[i])) continue;
    allowed[i] = true;
    if (!runs(with_allowed(program, allowed))) allowed[i] = false;
  }
  program = with_allowed(program, allowed);
  return true;
}

}  // namespace retrace::random
