#include "shrink.h"

#include <algorithm>

namespace retrace::random {

namespace {

// A sum can do with fewer terms; everything else needs all its operands.
bool may_lose_operands(const Statement& s) { return s.op == "loss"; }

std::set<size_t> with_partners(const Program& program, std::set<size_t> removed) {
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (!opens_scope(program.statements[i])) continue;
    const size_t end = matching_end(program, i);
    if (removed.count(i) != 0) removed.insert(end);
    if (removed.count(end) != 0) removed.insert(i);
  }
  return removed;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails, int most_trials)
      : program_(std::move(program)), fails_(fails), trials_left_(most_trials) {}

  Program run() {
    for (bool changed = true; changed && trials_left_ > 0;) {
      changed = remove_chunks();
      changed = unwrap_scopes() || changed;
      changed = bypass_statements() || changed;
      changed = simplify_statements() || changed;
      changed = release_values() || changed;
    }
    return program_;
  }

 private:
  bool accept(const Program& candidate) {
    if (trials_left_-- <= 0 || !fails_(candidate)) return false;
    program_ = candidate;
    return true;
  }

  // From the back, in halving sizes: late statements are the ones nothing depends on.
  bool remove_chunks() {
    bool changed = false;
    for (size_t size = std::max<size_t>(program_.statements.size() / 2, 1); size >= 1; size /= 2) {
      for (size_t end = program_.statements.size(); end > 0; end = end > size ? end - size : 0) {
        if (end > program_.statements.size()) continue;
        std::set<size_t> chunk;
        for (size_t i = end > size ? end - size : 0; i < end; ++i) chunk.insert(i);
        const Program candidate = without(program_, chunk);
        if (candidate.statements.size() < program_.statements.size() && accept(candidate)) changed = true;
      }
    }
    return changed;
  }

  bool unwrap_scopes() {
    bool changed = false;
    for (size_t i = program_.statements.size(); i-- > 0;) {
      if (i >= program_.statements.size() || !opens_scope(program_.statements[i])) continue;
      Program candidate = program_;
      const size_t end = matching_end(candidate, i);
      if (end < candidate.statements.size())
        candidate.statements.erase(candidate.statements.begin() + static_cast<std::ptrdiff_t>(end));
      candidate.statements.erase(candidate.statements.begin() + static_cast<std::ptrdiff_t>(i));
      changed = accept(candidate) || changed;
    }
    return changed;
  }

  // Lets the readers of a statement's result read its operand instead.
  bool bypass_statements() {
    bool changed = false;
    for (size_t i = program_.statements.size(); i-- > 0;) {
      if (i >= program_.statements.size()) continue;
      const Statement s = program_.statements[i];
      for (size_t k = 0; k < s.in.size() && !s.out.empty(); ++k) {
        Program candidate = program_;
        candidate.statements.erase(candidate.statements.begin() + static_cast<std::ptrdiff_t>(i));
        for (Statement& reader : candidate.statements)
          std::replace(reader.in.begin(), reader.in.end(), s.out[0], s.in[k]);
        if (accept(without(candidate, {}))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  bool simplify_statements() {
    bool changed = false;
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      Program candidate = program_;
      Statement& s = candidate.statements[i];
      if (s.op == "region" || s.op == "step") {
        s.ints[kPolicyKind] = kRecomputeAll;
        s.ints[kPolicyParameter] = 0;
        s.ints[kVerify] = 0;
      } else if (s.op == "leaf") {
        s.ints[1] = 0;
      } else {
        continue;
      }
      if (s.ints != program_.statements[i].ints) changed = accept(candidate) || changed;
    }
    return changed;
  }

  bool release_values() {
    bool changed = false;
    for (const int v : std::set<int>(program_.held)) {
      Program candidate = program_;
      candidate.held.erase(v);
      changed = accept(candidate) || changed;
    }
    return changed;
  }

  Program program_;
  const std::function<bool(const Program&)>& fails_;
  int trials_left_;
};

}  // namespace

Program without(const Program& program, const std::set<size_t>& removed) {
  const std::set<size_t> gone = with_partners(program, removed);
  std::set<int> defined;
  Program rest = program;
  rest.statements.clear();
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (gone.count(i) != 0) continue;
    Statement s = program.statements[i];
    const auto missing = [&](int v) { return defined.count(v) == 0; };
    if (may_lose_operands(s)) s.in.erase(std::remove_if(s.in.begin(), s.in.end(), missing), s.in.end());
    const bool fits = std::none_of(s.in.begin(), s.in.end(), missing) && !(may_lose_operands(s) && s.in.empty());
    if (!fits) continue;
    defined.insert(s.out.begin(), s.out.end());
    rest.statements.push_back(std::move(s));
  }
  return rest;
}

Program shrink(Program program, const std::function<bool(const Program&)>& fails, int most_trials) {
  if (!fails(program)) return program;
  return Shrinker(std::move(program), fails, most_trials).run();
}

}  // namespace retrace::random
