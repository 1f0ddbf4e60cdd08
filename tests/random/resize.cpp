#include "resize.h"

#include <algorithm>
#include <map>

#include "generate.h"
#include "operators.h"

namespace retrace::random {

namespace {

constexpr size_t kFirstSize = 4;  // of a leaf's ints
constexpr int64_t kLargest = 40;
constexpr int kTrialsEach = 4;
constexpr size_t kLongestPart = 4;  // statements

// One that can be fed with what it made.
bool continues(const Statement& s) {
  const Operator* const op = find_operator(s.op);
  return op != nullptr && op->effect == Effect::pure && s.op != "loss" && !s.in.empty() && !s.out.empty();
}

// Statements whose first result is the first operand of the next copy of them.
struct Part {
  size_t begin = 0, end = 0;
};

std::vector<Part> parts_of(const Program& program) {
  std::vector<Part> parts;
  for (size_t begin = 0; begin < program.statements.size(); ++begin) {
    for (size_t end = begin; end < program.statements.size() && end - begin < kLongestPart;) {
      if (!continues(program.statements[end++])) break;
      parts.push_back({begin, end});
    }
  }
  return parts;
}

class Renaming {
 public:
  explicit Renaming(int values) : values_(values) {}

  Statement applied(Statement s) const {
    for (int& v : s.in) v = now(v);
    return s;
  }
  Statement with_new_results(Statement s) {
    s = applied(std::move(s));
    for (int& v : s.out) v = names_[v] = values_++;
    return s;
  }
  void rename(int from, int to) { names_[from] = to; }
  int now(int v) const { return names_.count(v) != 0 ? names_.at(v) : v; }
  int values() const { return values_; }

 private:
  std::map<int, int> names_;
  int values_;
};

bool runs_fairly(const Program& program) {
  const Outcome plain = run_plain(program);
  return !plain.thrown && !plain.unfair && plain.leaked_bytes <= 0;
}

}  // namespace

Program with_other_sizes(const Program& program, Dice& dice) {
  const double chance = dice.chance(0.5) ? 1 : 0.4;
  std::map<int64_t, int64_t> sizes;
  Program other = program;
  for (Statement& s : other.statements) {
    if (s.op != "leaf") continue;
    for (size_t k = kFirstSize; k < s.ints.size(); ++k) {
      if (s.ints[k] < 2) continue;  // broadcast, or empty
      const auto [size, is_new] = sizes.try_emplace(s.ints[k], s.ints[k]);
      if (is_new && dice.chance(chance)) size->second = dice.between(1, kLargest);
      s.ints[k] = size->second;
    }
  }
  return other;
}

Program with_a_longer_loop(const Program& program, Dice& dice) {
  const std::vector<Part> parts = parts_of(program);
  if (parts.empty()) return program;
  const Part part = dice.one_of(parts);
  const int fed = program.statements[part.begin].in.front();
  const int made = program.statements[part.end - 1].out.front();
  Program longer = program;
  longer.statements.clear();
  Renaming renaming(program.values);
  for (size_t i = 0; i < program.statements.size(); ++i) {
    longer.statements.push_back(renaming.applied(program.statements[i]));
    if (i + 1 != part.end) continue;
    for (int64_t times = dice.between(1, 2); times > 0; --times) {
      Renaming inside = renaming;
      inside.rename(fed, renaming.now(made));
      for (size_t k = part.begin; k < part.end; ++k)
        longer.statements.push_back(inside.with_new_results(program.statements[k]));
      const int latest = inside.now(made);
      renaming = Renaming(inside.values());
      renaming.rename(made, latest);
    }
  }
  longer.values = renaming.values();
  return longer;
}

std::vector<Program> in_several_sizes(const Program& program, size_t most) {
  std::vector<Program> all;
  if (!runs_fairly(program)) return all;
  all.push_back(program);
  Dice dice(program.seed ^ 0x512e5ull);
  for (size_t trials = most * kTrialsEach; trials > 0 && all.size() <= most; --trials) {
    Program other = program;
    const bool longer = dice.chance(0.3);
    if (longer) other = with_a_longer_loop(program, dice);
    if (!longer || dice.chance(0.5)) other = with_other_sizes(other, dice);
    if (to_text(other) != to_text(program) && runs_fairly(other)) all.push_back(std::move(other));
  }
  return all;
}

}  // namespace retrace::random
