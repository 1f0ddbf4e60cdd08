#include "plan/solve/carry_over.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace retrace::plan {
namespace {

constexpr size_t kMostCells = 4'000'000;  // of the table for what is between beginning and end

uint64_t mix(uint64_t hash, uint64_t with) {
  hash ^= with + 0x9e3779b97f4a7c15U + (hash << 6U) + (hash >> 2U);
  return hash * 0xff51afd7ed558ccdU;
}

// Our own, so that a hash can be written down.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::vector<ValueId> results_of(const Op& op) {
  std::vector<ValueId> results = op.fresh;
  for (const Arg& arg : op.args) {
    if (arg.becomes != kNone) results.push_back(arg.becomes);
  }
  return results;
}

std::vector<uint64_t> kinds_of(const Graph& graph) {
  std::vector<uint64_t> kinds;
  for (const Op& op : graph.ops) kinds.push_back(kind_of(op));
  return kinds;
}

// By operator of `b`, its counterpart in `a`, or none: the longest common subsequence, of whatever is not at the beginning
// or the end anyway.
std::vector<OpId> counterparts(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<OpId> result(b.size(), kNone);
  const size_t shorter = std::min(a.size(), b.size());
  size_t begin = 0, end = 0;
  while (begin < shorter && a[begin] == b[begin]) {
    result[begin] = static_cast<OpId>(begin);
    ++begin;
  }
  while (end < shorter - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) {
    result[b.size() - 1 - end] = static_cast<OpId>(a.size() - 1 - end);
    ++end;
  }
  const size_t rows = a.size() - begin - end, columns = b.size() - begin - end;
  if (rows == 0 || columns == 0 || rows > kMostCells / columns) return result;
  // By row and column, the length of what is common from there on.
  std::vector<uint16_t> common((rows + 1) * (columns + 1));
  const auto cell = [&](size_t row, size_t column) -> uint16_t& { return common[row * (columns + 1) + column]; };
  for (size_t row = rows; row-- > 0;) {
    for (size_t column = columns; column-- > 0;) {
      cell(row, column) = a[begin + row] == b[begin + column] ? static_cast<uint16_t>(cell(row + 1, column + 1) + 1)
                                                              : std::max(cell(row + 1, column), cell(row, column + 1));
    }
  }
  for (size_t row = 0, column = 0; row < rows && column < columns;) {
    if (a[begin + row] == b[begin + column]) {
      result[begin + column++] = static_cast<OpId>(begin + row++);
    } else {
      cell(row + 1, column) >= cell(row, column + 1) ? ++row : ++column;
    }
  }
  return result;
}

// What most results of one kind of operator were given.
class Majority {
 public:
  void add(Choice choice) {
    counts_.resize(std::max(counts_.size(), choice.index() + 1));
    if (++counts_[choice.index()] > most_) {
      most_ = counts_[choice.index()];
      choice_ = choice;
    }
  }
  Choice choice() const { return choice_; }

 private:
  std::vector<int> counts_;  // by choice
  int most_ = 0;
  Choice choice_;
};

}  // namespace

uint64_t kind_of(const Op& op) {
  uint64_t hash = mix(hash_of(op.name), op.fresh.size());
  for (const Arg& arg : op.args) hash = mix(hash, (arg.shape_only ? 2U : 0U) + (arg.becomes != kNone ? 1U : 0U));
  return hash;
}

Choices carry_over(const Choices& choices, const Graph& from, const Graph& to) {
  const std::vector<uint64_t> from_kinds = kinds_of(from), to_kinds = kinds_of(to);
  const std::vector<OpId> counterpart = counterparts(from_kinds, to_kinds);
  std::unordered_map<uint64_t, Majority> majorities;  // by kind of operator and position of the result
  for (size_t o = 0; o < from.ops.size(); ++o) {
    const std::vector<ValueId> results = results_of(from.ops[o]);
    for (size_t i = 0; i < results.size(); ++i) majorities[mix(from_kinds[o], i)].add(choices[at(results[i])]);
  }
  Choices result(to.values.size());
  for (const ValueId v : to.handles) result[at(v)] = Choice::keep();
  const std::vector<bool> can_be_kept = keepable(to);
  for (size_t o = 0; o < to.ops.size(); ++o) {
    const std::vector<ValueId> results = results_of(to.ops[o]);
    const std::vector<ValueId> models =
        counterpart[o] == kNone ? std::vector<ValueId>{} : results_of(from.ops[at(counterpart[o])]);
    for (size_t i = 0; i < results.size(); ++i) {
      Choice& choice = result[at(results[i])];
      if (!models.empty()) {
        choice = choices[at(models[i])];
      } else if (const auto found = majorities.find(mix(to_kinds[o], i)); found != majorities.end()) {
        choice = found->second.choice();
      }
      choice = possible(choice, to.values[at(results[i])], can_be_kept[at(results[i])]);
    }
  }
  return result;
}

}  // namespace retrace::plan
