#include "operators.h"

#include <string>
#include <unordered_map>

namespace retrace::random {

namespace {

std::vector<Operator> joined(const std::vector<std::vector<Operator>>& families) {
  std::vector<Operator> table;
  for (const auto& family : families) table.insert(table.end(), family.begin(), family.end());
  return table;
}

}  // namespace

const std::vector<Operator>& operator_table() {
  static const std::vector<Operator> table =
      joined({pointwise_operators(), reduction_operators(), in_place_operators(), view_operators(), layout_operators(),
              network_operators(), random_operators(), creation_operators(), custom_function_operators(),
              autograd_operators()});
  return table;
}

const std::vector<Operator>& wild_table() {
  static const std::vector<Operator> table =
      joined({silent_write_operators(), unannotated_operators(), wasteful_operators(), second_thread_operators()});
  return table;
}

const Operator* find_operator(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string, const Operator*> map;
    for (const auto* table : {&operator_table(), &wild_table()}) {
      for (const Operator& op : *table) map.emplace(op.name, &op);
    }
    return map;
  }();
  const auto found = by_name.find(without_lateness(std::string(name)));
  return found == by_name.end() ? nullptr : found->second;
}

bool propose_number(Chooser& chooser, Statement& statement) { return chooser.operand(statement, is_number); }

bool propose_real(Chooser& chooser, Statement& statement) { return chooser.operand(statement, is_real); }

bool propose_anything(Chooser& chooser, Statement& statement) {
  return chooser.operand(statement, [](const torch::Tensor&) { return true; });
}

bool propose_two_numbers(Chooser& chooser, Statement& statement) {
  if (!chooser.operand(statement, is_number)) return false;
  const torch::Tensor first = chooser.operand_of(statement, 0);
  return chooser.operand(statement, [&](const torch::Tensor& t) { return is_number(t) && t.sizes() == first.sizes(); });
}

bool propose_two_reals(Chooser& chooser, Statement& statement) {
  if (!propose_real(chooser, statement)) return false;
  const torch::Tensor first = chooser.operand_of(statement, 0);
  return chooser.operand(statement, [&](const torch::Tensor& t) {
    return t.scalar_type() == first.scalar_type() && t.sizes() == first.sizes();
  });
}

bool propose_number_and_dim(Chooser& chooser, Statement& statement) {
  if (!chooser.operand(statement, [](const torch::Tensor& t) { return is_plain_number(t) && t.dim() > 0; }))
    return false;
  statement.ints = {chooser.dice.below(chooser.operand_of(statement, 0).dim())};
  return true;
}

bool propose_real_and_dim(Chooser& chooser, Statement& statement) {
  if (!chooser.operand(statement, [](const torch::Tensor& t) { return is_real(t) && t.numel() > 0 && t.dim() > 0; })) {
    return false;
  }
  statement.ints = {chooser.dice.below(chooser.operand_of(statement, 0).dim())};
  return true;
}

}  // namespace retrace::random
