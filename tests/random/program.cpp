#include "program.h"

#include <array>
#include <sstream>

namespace retrace::random {

namespace {

const std::array<std::string, 3> kPrefixes = {"", "late_", "outside_"};

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

std::string late_name(const std::string& op, Lateness lateness) {
  return kPrefixes[static_cast<size_t>(lateness)] + without_lateness(op);
}

Lateness lateness_of(const std::string& op) {
  return begins_with(op, kPrefixes[1])   ? Lateness::late
         : begins_with(op, kPrefixes[2]) ? Lateness::outside
                                         : Lateness::fresh;
}

std::string without_lateness(const std::string& op) {
  return op.substr(kPrefixes[static_cast<size_t>(lateness_of(op))].size());
}

bool opens_scope(const Statement& statement) {
  return statement.op == "region" || statement.op == "step" || statement.op == "no_grad" ||
         statement.op == "enable_grad";
}

bool closes_scope(const Statement& statement) { return statement.op == "end"; }

size_t matching_end(const Program& program, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < program.statements.size(); ++i) {
    if (opens_scope(program.statements[i])) ++depth;
    if (closes_scope(program.statements[i]) && --depth == 0) return i;
  }
  return program.statements.size();
}

std::vector<int> last_uses(const Program& program) {
  std::vector<int> last(static_cast<size_t>(program.values), -1);
  for (size_t i = 0; i < program.statements.size(); ++i) {
    for (const int v : program.statements[i].in) last[static_cast<size_t>(v)] = static_cast<int>(i);
    for (const int v : program.statements[i].out) last[static_cast<size_t>(v)] = static_cast<int>(i);
  }
  return last;
}

Program in_one_step(const Program& program, int64_t policy, int64_t parameter) {
  Program whole = program;
  whole.statements.clear();
  std::set<size_t> steps;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (program.statements[i].op == "step") steps.insert({i, matching_end(program, i)});
  }
  bool open = false;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (steps.count(i) != 0) continue;
    if (!open && program.statements[i].op != "leaf") {
      whole.statements.push_back({"step", {}, {}, {policy, parameter, 0, 0}, {}});
      open = true;
    }
    whole.statements.push_back(program.statements[i]);
  }
  if (open) whole.statements.push_back({"end", {}, {}, {}, {}});
  return whole;
}

std::string policy_text(const Statement& scope) {
  const std::string parameter = std::to_string(scope.ints[kPolicyParameter]);
  std::string text;
  switch (scope.ints[kPolicyKind]) {
    case kKeepAll:
      text = "keep_all";
      break;
    case kRecomputeAll:
      text = "recompute_all";
      break;
    case kEvery:
      text = "every:" + parameter;
      break;
    case kSelective:
      text = "selective#" + parameter;
      break;
    case kSelectiveDefault:
      text = "selective";
      break;
    case kBudget:
      text = "budget " + std::to_string(BudgetParameter::of(scope).percent) + "%";
      if (BudgetParameter::of(scope).best_effort) text += " best effort";
      break;
    case kBudgetOfFirstStep:
      text = "budget(\"" + parameter + "%\")";
      break;
    default:
      text = "custom#" + parameter;
      break;
  }
  if (scope.ints[kVerify] != 0) text += " verify";
  if (scope.op == "step") text += " session " + std::to_string(scope.ints[kSessionNumber]);
  return text;
}

namespace {

std::string joined_values(const std::vector<int>& values) {
  std::string text;
  for (const int v : values) text += (text.empty() ? "v" : ", v") + std::to_string(v);
  return text;
}

void print_parameters(std::ostream& out, const Statement& statement) {
  if (opens_scope(statement)) {
    if (!statement.ints.empty()) out << " [" << policy_text(statement) << "]";
    return;
  }
  for (const int64_t i : statement.ints) out << " " << i;
  for (const double r : statement.reals) out << " " << r;
}

}  // namespace

std::string to_text(const Program& program) {
  std::ostringstream out;
  out << "program of seed " << program.seed << ", " << program.statements.size() << " statements\n";
  int depth = 1;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    const Statement& s = program.statements[i];
    if (closes_scope(s) && depth > 1) --depth;
    out << (i < 10 ? " " : "") << i << std::string(static_cast<size_t>(depth) * 2, ' ');
    if (!s.out.empty()) out << joined_values(s.out) << " = ";
    out << s.op;
    if (!s.in.empty()) out << "(" << joined_values(s.in) << ")";
    print_parameters(out, s);
    out << "\n";
    if (opens_scope(s)) ++depth;
  }
  const std::vector<int> held(program.held.begin(), program.held.end());
  if (!held.empty()) out << "held to the end: " << joined_values(held) << "\n";
  return out.str();
}

}  // namespace retrace::random
