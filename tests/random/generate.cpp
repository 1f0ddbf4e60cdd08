// The generator writes a statement, runs it at once on real tensors, and keeps it if it ran: shapes and types are then
// known and nothing has to be inferred.
#include "generate.h"

#include <algorithm>

#include <ATen/CPUGeneratorImpl.h>

#include "dice.h"
#include "may_leak.h"
#include "operators.h"
#include "shrink.h"

namespace retrace::random {

namespace {

using torch::Tensor;

constexpr int64_t kMostElements = 400;
constexpr int64_t kMostElementsWild = 16384;
constexpr size_t kMostValues = 160;

using Urn = std::vector<const Operator*>;

Urn urn_of(const std::vector<Operator>& table) {
  Urn tickets;
  for (const Operator& op : table) tickets.insert(tickets.end(), static_cast<size_t>(op.weight), &op);
  return tickets;
}

const Operator& weighted_choice(Dice& dice, Mode mode) {
  static const Urn ordinary = urn_of(operator_table());
  static const Urn wild = urn_of(wild_table());
  return *dice.one_of(mode == Mode::wild && dice.chance(0.35) ? wild : ordinary);
}

class Builder {
 public:
  Builder(uint64_t seed, uint64_t attempt, Mode mode)
      : mode_(mode),
        dice_(seed * 1000003 + attempt),
        chooser_(dice_, values_),
        generator_(at::detail::createCPUGenerator(seed + 1)) {
    program_.seed = seed;
  }

  Program build(bool may_raise);

 private:
  void add_leaves();
  void add_large_leaves();
  void add_leaf(int64_t type, std::vector<int64_t> sizes, bool requires_grad);
  void add_round(int64_t statements);
  void add_body(int64_t statements);
  bool add_random_statement();
  void maybe_open_scope();
  Statement random_scope(const std::string& kind);
  void maybe_give_budget(Statement& scope) const;
  void open(Statement scope);
  void close();
  void close_down_to(size_t depth);
  void add_ending();
  int add_loss();
  void add_wild_ending();
  void add_second_order(int loss);
  bool add_copy(size_t begin, size_t end);
  void add_update();
  void choose_held();
  bool inside(const std::string& kind) const;

  // Runs the statement and appends it if it ran and its results are worth having. One that must stay is appended also
  // if it raises: a backward that a write has spoiled, which remove_bad_writes() will take out.
  bool append(Statement statement, bool must_stay = false);
  bool acceptable(const Results& results);
  int any_differentiable();

  const Mode mode_;
  Dice dice_;
  Program program_;
  std::vector<Tensor> values_;
  std::vector<Tensor> trainable_;
  Chooser chooser_;
  at::Generator generator_;
  std::vector<std::string> open_;                                 // kinds of the scopes we are in
  std::vector<std::unique_ptr<torch::AutoGradMode>> grad_modes_;  // one per open scope; null where it changes nothing
  std::vector<int64_t> sizes_;
  int64_t sessions_ = 0;
  bool may_raise_ = false;
  bool raised_ = false;  // nothing can follow
};

Program Builder::build(bool may_raise) {
  may_raise_ = may_raise;
  torch::manual_seed(program_.seed);
  add_leaves();
  if (mode_ == Mode::wild) add_large_leaves();
  const int64_t statements = dice_.between(2, dice_.chance(0.3) ? 30 : 14);
  const size_t first = program_.statements.size();
  add_round(statements);
  const size_t last = program_.statements.size();
  if (!raised_ && dice_.chance(0.35)) {
    add_update();
    if (dice_.chance(0.6)) {
      add_copy(first, last);
    } else {
      add_round(dice_.between(2, 10));
    }
  }
  if (torch::get_num_threads() != 1) torch::set_num_threads(1);
  choose_held();
  program_.values = static_cast<int>(values_.size());
  return program_;
}

void Builder::add_leaf(int64_t type, std::vector<int64_t> sizes, bool requires_grad) {
  Statement leaf{
      "leaf", {}, {}, {type, dice_.chance(0.7) ? 0 : dice_.below(4), requires_grad ? 1 : 0, dice_.below(1 << 30)}, {}};
  leaf.ints.insert(leaf.ints.end(), sizes.begin(), sizes.end());
  append(std::move(leaf));
}

// A few sizes per program, used again and again, so that operands fit together.
void Builder::add_leaves() {
  sizes_ = {dice_.between(2, 5), dice_.between(2, 5), dice_.between(1, 4)};
  const int64_t a = sizes_[0];
  const int64_t b = sizes_[1];
  const int64_t type = dice_.chance(0.7) ? 0 : dice_.below(4);
  add_leaf(type, {a, b}, true);
  add_leaf(type, {b, b}, true);
  add_leaf(type, {b}, true);
  add_leaf(type, {b}, dice_.chance(0.7));
  add_leaf(type, {a, b}, false);
  if (dice_.chance(0.6)) add_leaf(type, {sizes_[2], a, b}, dice_.chance(0.6));
  if (dice_.chance(0.3)) add_leaf(dice_.below(4), {a, b}, dice_.chance(0.5));
  if (dice_.chance(0.3)) add_leaf(3, {b, a}, true);
  if (dice_.chance(0.2)) add_leaf(type, {}, dice_.chance(0.5));
  if (dice_.chance(0.15)) add_leaf(type, {0, b}, true);
  add_leaf(4, {a}, false);
  if (dice_.chance(0.5)) add_leaf(4, {a, b}, false);
  add_leaf(5, {a, b}, false);
  // What BatchNorm and moving averages write.
  add_leaf(type, {b}, false);
  add_leaf(type, {b}, false);
  add_leaf(4, {}, false);
}

// Up to 64 KiB each, in the shapes that fit together. Some programs have none: the tiny ones find other faults.
void Builder::add_large_leaves() {
  if (dice_.chance(0.3)) return;
  const int64_t a = dice_.between(32, 128);
  const int64_t b = dice_.between(32, 128);
  add_leaf(0, {a, b}, true);
  add_leaf(0, {b, b}, true);
  add_leaf(0, {b}, true);
  add_leaf(0, {a, b}, false);
  if (dice_.chance(0.3)) add_leaf(0, {b}, false);
}

void Builder::add_round(int64_t statements) {
  const bool in_step = dice_.chance(0.5);
  const bool backward_inside = dice_.chance(0.7);
  if (in_step) open(random_scope("step"));
  if (dice_.chance(0.3)) open(random_scope("region"));
  add_body(statements);
  close_down_to(in_step ? 1 : 0);
  if (!backward_inside) close_down_to(0);
  if (!raised_) mode_ == Mode::wild&& dice_.chance(0.5) ? add_wild_ending() : add_ending();
  close_down_to(0);
}

void Builder::add_body(int64_t statements) {
  const size_t depth = open_.size();
  for (int64_t k = 0; k < statements && !raised_ && values_.size() < kMostValues; ++k) {
    maybe_open_scope();
    for (int attempt = 0; attempt < 12 && !add_random_statement() && !raised_; ++attempt) {
    }
    if (open_.size() > depth && dice_.chance(0.15)) close();
  }
}

bool Builder::add_random_statement() {
  const Operator& op = weighted_choice(dice_, mode_);
  Statement statement{op.name, {}, {}, {}, {}};
  return op.propose(chooser_, statement) && append(std::move(statement));
}

bool Builder::inside(const std::string& kind) const {
  return std::find(open_.begin(), open_.end(), kind) != open_.end();
}

void Builder::maybe_open_scope() {
  if (open_.size() >= 4) return;
  if (dice_.chance(0.16)) open(random_scope("region"));
  if (dice_.chance(0.03)) open(random_scope("no_grad"));
  if (dice_.chance(0.02)) open(random_scope("step"));
  if (inside("no_grad") && dice_.chance(0.2)) open(random_scope("enable_grad"));
}

Statement Builder::random_scope(const std::string& kind) {
  Statement scope{kind, {}, {}, {}, {}};
  if (kind == "no_grad" || kind == "enable_grad") return scope;
  const int64_t policy = dice_.chance(0.4) ? static_cast<int64_t>(kRecomputeAll) : dice_.below(kPolicyKinds);
  const int64_t parameter = policy == kEvery ? dice_.between(1, 3) : dice_.below(1 << 16);
  scope.ints = {policy, parameter, dice_.chance(0.3) ? 1 : 0};
  if (kind == "step") {
    if (open_.empty()) maybe_give_budget(scope);
    scope.ints.push_back(sessions_++);
  }
  return scope;
}

// From dice of their own, so that budgets change nothing else about a program.
void Builder::maybe_give_budget(Statement& scope) const {
  Dice dice(program_.seed ^ static_cast<uint64_t>(sessions_ + 1) << 40);
  if (!dice.chance(0.5)) return;
  scope.ints[kPolicyKind] = kBudget;
  scope.ints[kPolicyParameter] = BudgetParameter{dice.between(30, 110), dice.chance(0.5)}.packed();
  if (mode_ == Mode::wild && dice.chance(0.3)) {
    scope.ints[kPolicyKind] = kBudgetOfFirstStep;
    scope.ints[kPolicyParameter] = dice.chance(0.5) ? 100 : dice.between(50, 99);
  }
}

void Builder::open(Statement scope) {
  const bool changes_mode = scope.op == "no_grad" || scope.op == "enable_grad";
  grad_modes_.push_back(changes_mode ? std::make_unique<torch::AutoGradMode>(scope.op == "enable_grad") : nullptr);
  open_.push_back(scope.op);
  program_.statements.push_back(std::move(scope));
}

void Builder::close() {
  program_.statements.push_back({"end", {}, {}, {}, {}});
  grad_modes_.pop_back();
  open_.pop_back();
}

void Builder::close_down_to(size_t depth) {
  while (open_.size() > depth) close();
}

int Builder::any_differentiable() {
  Statement probe;
  const auto fits = [](const Tensor& t) { return is_number(t) && t.requires_grad() && !t.is_leaf(); };
  return chooser_.operand(probe, fits) ? probe.in[0] : -1;
}

// The value number of a new loss, or -1.
int Builder::add_loss() {
  Statement loss{"loss", {}, {}, {}, {}};
  const int64_t terms = dice_.between(1, 6);
  for (int64_t k = 0; k < terms; ++k) {
    const int term = any_differentiable();
    if (term >= 0 && std::find(loss.in.begin(), loss.in.end(), term) == loss.in.end()) loss.in.push_back(term);
  }
  if (loss.in.empty() || !append(std::move(loss))) return -1;
  return static_cast<int>(values_.size()) - 1;
}

// Several backwards in one step: of one graph, of two, with gradients that nobody wants.
void Builder::add_wild_ending() {
  const int64_t style = dice_.below(3);
  for (int64_t k = 0; k < 2 && !raised_; ++k) {
    const int loss = add_loss();
    if (loss < 0) return;
    const int64_t retaining = style == 0 ? 2 : 0;
    for (int64_t n = 0; n < retaining && !raised_; ++n) append({"backward", {loss}, {}, {1}, {}}, true);
    if (style == 1 && !raised_) {
      Statement dropped{"drop_grad", {loss}, {}, {dice_.below(2)}, {}};
      if (chooser_.operand(dropped, [](const Tensor& t) { return t.requires_grad() && t.is_leaf(); }))
        append(std::move(dropped));
    }
    if (!raised_) append({"backward", {loss}, {}, {0}, {}}, true);
    if (style == 0) return;
  }
}

void Builder::add_ending() {
  const int value = add_loss();
  if (value < 0) return;
  const int64_t style = dice_.below(6);
  if (style == 2) append({"backward", {value}, {}, {1}, {}}, true);
  if (style == 3) {
    Statement partial{"grad", {value}, {}, {0}, {}};
    if (chooser_.operand(partial, [](const Tensor& t) { return t.requires_grad() && t.is_leaf(); }))
      append(std::move(partial));
  }
  if (style >= 4) add_second_order(value);
  if (raised_) return;
  append({"backward", {value}, {}, {0}, {}}, true);
}

void Builder::add_second_order(int loss) {
  Statement first{"grad", {loss}, {}, {1}, {}};
  for (int k = 0; k < 2; ++k) chooser_.operand(first, [](const Tensor& t) { return t.requires_grad() && t.is_leaf(); });
  if (!append(std::move(first), true)) return;
  Statement second{"loss", {}, {}, {}, {}};
  for (const int v : program_.statements.back().out) {
    const Tensor& gradient = values_[static_cast<size_t>(v)];
    if (gradient.defined() && gradient.requires_grad()) second.in.push_back(v);
  }
  if (second.in.empty() || !append(std::move(second))) return;
  append({"backward", {static_cast<int>(values_.size()) - 1}, {}, {1}, {}}, true);
}

void Builder::add_update() {
  append({"update", {}, {}, {dice_.below(3)}, {0.05}});
  append({"clear_gradients", {}, {}, {dice_.below(3)}, {0.0}});
}

// The same statements once more, on fresh values: what a second step of the same model is.
bool Builder::add_copy(size_t begin, size_t end) {
  std::vector<int> renamed(values_.size());
  for (size_t v = 0; v < renamed.size(); ++v) renamed[v] = static_cast<int>(v);
  for (size_t i = begin; i < end; ++i) {
    Statement s = program_.statements[i];
    if (opens_scope(s)) {
      open(std::move(s));
    } else if (closes_scope(s)) {
      close();
    } else {
      const std::vector<int> outs = s.out;
      s.out.clear();
      for (int& v : s.in) v = renamed[static_cast<size_t>(v)];
      if (!append(std::move(s)) || program_.statements.back().out.size() != outs.size()) break;
      for (size_t k = 0; k < outs.size(); ++k)
        renamed[static_cast<size_t>(outs[k])] = program_.statements.back().out[k];
    }
  }
  close_down_to(0);
  return true;
}

void Builder::choose_held() {
  const bool any = dice_.chance(0.5);
  for (size_t v = 0; v < values_.size() && any; ++v) {
    if (dice_.chance(0.15)) program_.held.insert(static_cast<int>(v));
  }
}

bool Builder::acceptable(const Results& results) {
  if (results.size() > 8) return false;
  torch::NoGradGuard no_grad;
  for (const Tensor& t : results) {
    if (!t.defined()) continue;
    if (t.numel() > (mode_ == Mode::wild ? kMostElementsWild : kMostElements) || t.dim() > 5) return false;
    // Numbers that grow without bound end in infinities, which compare equal too easily.
    const bool tame = t.numel() == 0 || !is_number(t) || t.detach().abs().max().to(torch::kDouble).item<double>() < 1e3;
    if (!tame && !dice_.chance(0.05)) return false;
  }
  return true;
}

bool Builder::append(Statement statement, bool must_stay) {
  Results results;
  try {
    if (statement.op == "leaf") {
      results = {make_leaf(statement)};
      chooser_.leaves = static_cast<int>(values_.size()) + 1;
      if (results[0].requires_grad()) trainable_.push_back(results[0]);
    } else {
      Call call{statement, {}, generator_, &trainable_};
      for (const int v : statement.in) {
        if (!values_[static_cast<size_t>(v)].defined()) return false;
        call.in.push_back(values_[static_cast<size_t>(v)]);
      }
      results = find_operator(statement.op)->run(call);
    }
  } catch (const std::exception&) {
    raised_ = may_raise_ && (must_stay || dice_.chance(0.1));
    if (raised_) program_.statements.push_back(std::move(statement));
    if (raised_ || !must_stay) return false;
    results.assign(statement.op == "grad" ? statement.in.size() - 1 : 0, Tensor());
  }
  if (!acceptable(results)) return false;
  for (Tensor& result : results) {
    statement.out.push_back(static_cast<int>(values_.size()));
    values_.push_back(std::move(result));
  }
  program_.statements.push_back(std::move(statement));
  return true;
}

}  // namespace

namespace {

// A program without backward shows little; a few are enough.
bool goes_backward(const Program& program) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [](const Statement& s) { return s.op == "backward" || s.op == "grad"; });
}

void thin_out_late_writes(Program& program, Dice& dice) {
  std::set<size_t> removed;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    const Lateness lateness = lateness_of(program.statements[i].op);
    const bool refill = without_lateness(program.statements[i].op) == "refill_blob";  // late by nature
    const double chance = lateness == Lateness::outside ? 0.2 : refill ? 1 : 0.35;
    if (lateness != Lateness::fresh && !dice.chance(chance)) removed.insert(i);
  }
  program = without(program, removed);
}

}  // namespace

void name_silent_writes(Program& program) {
  for (const auto& [statement, lateness] : run_plain(program).silent_writes) {
    std::string& op = program.statements[static_cast<size_t>(statement)].op;
    op = late_name(op, lateness);
  }
}

Program generate(uint64_t seed, Mode mode) {
  const MayLeak may_leak(true);  // it runs what it writes
  Dice dice(seed ^ 0x5eedull);
  const bool may_raise = dice.chance(0.08);
  Program program;
  for (uint64_t attempt = 0; attempt < 40; ++attempt) {
    program = Builder(seed, attempt, mode).build(may_raise);
    if (!goes_backward(program) && !dice.chance(0.02)) continue;
    if (!may_raise && !remove_bad_writes(program)) continue;
    if (mode == Mode::wild) {
      name_silent_writes(program);
      thin_out_late_writes(program, dice);
    }
    if (!run_plain(program).unfair) return program;
  }
  return program;
}

}  // namespace retrace::random
