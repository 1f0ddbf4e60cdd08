#include "shapes.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include <retrace/memory.h>
#include <retrace/stats.h>

#include "check.h"
#include "generate.h"
#include "machine.h"
#include "operators.h"
#include "resize.h"
#include "shrink.h"
#include "tape/budgeted_step.h"

namespace retrace::random {

namespace {

constexpr size_t kMostOthers = 3;
constexpr int kStepsInAll = 8;
// So much more than plain LibTorch takes may the simulator think that it does.
constexpr double kSimulatedShare = 0.02;
constexpr double kSimulatedBytes = 64;
constexpr int kMostBeginnings = 12;
constexpr int kMostShrinkTrials = 400;

// The plain program, with the peak of its step.
class MeasuredStep : public Scopes {
 public:
  Results region(const Statement&, const Body& body, Results inputs) override { return body(std::move(inputs)); }
  void step_on_thread(const Statement&, const std::function<void()>& body) override { body(); }
  void step(const Statement&, const std::function<void()>& body) override {
    memory::reset_peak();
    start_bytes_ = memory::live_bytes();
    body();
    step_peak_bytes_ = memory::peak_bytes();
  }
  int64_t start_bytes() const { return start_bytes_; }
  int64_t step_peak_bytes() const { return step_peak_bytes_; }

 private:
  int64_t start_bytes_ = 0, step_peak_bytes_ = 0;
};

struct Size {
  Program program;
  Outcome plain;
  // Of the plain step, beyond what was live before the program.
  int64_t start_bytes = 0, peak_bytes = 0;
};

std::vector<Size> measured(const std::vector<Program>& programs) {
  std::vector<Size> sizes;
  for (const Program& program : programs) {
    const int64_t before = memory::live_bytes();
    MeasuredStep scopes;
    Outcome plain = Machine(program, scopes).run();
    sizes.push_back({program, std::move(plain), scopes.start_bytes() - before, scopes.step_peak_bytes() - before});
  }
  return sizes;
}

// Half of the steps are like the one before.
std::vector<size_t> order_of(uint64_t seed, size_t sizes) {
  Dice dice(seed ^ 0x0bde7ull);
  std::vector<size_t> order;
  for (int k = 0; k < kStepsInAll; ++k) {
    const bool again = !order.empty() && dice.chance(0.5);
    order.push_back(again ? order.back() : static_cast<size_t>(dice.below(static_cast<int64_t>(sizes))));
  }
  return order;
}

bool is_backward(const Statement& s) { return s.op == "backward" || s.op == "grad"; }

std::vector<Program> programs_of(const Program& program, const ShapesRun& run) {
  // A step that begins above its budget and then makes nothing cannot be refused.
  if (std::none_of(program.statements.begin(), program.statements.end(), is_backward)) return {};
  const int64_t parameter = run.in_percent ? run.percent : BudgetParameter{run.percent, run.best_effort}.packed();
  Program whole = in_one_step(program, run.in_percent ? kBudgetOfFirstStep : kBudget, parameter);
  for (Statement& s : whole.statements) {
    if (s.op == "step") s.ints[kVerify] = run.verify ? 1 : 0;
  }
  return in_several_sizes(whole, kMostOthers);
}

// LibTorch's own graph of a second-order gradient through a write in place can refer to itself, and whatever it saved
// with it: see compare() in outcome.cpp.
bool may_leak(const Program& program) {
  const auto has = [&](auto predicate) {
    return std::any_of(program.statements.begin(), program.statements.end(), predicate);
  };
  const auto writes = [](const Statement& s) {
    const Operator* const op = find_operator(s.op);
    return op != nullptr && op->effect == Effect::writes;
  };
  return has(writes) && has([](const Statement& s) { return s.op == "grad" && s.ints.at(0) != 0; });
}

// When a node of a retained graph lets go of what it unpacked is not on the tape; and of content that is overwritten
// while a graph stands (a weight, when it is updated), steps that follow a plan copy less than the one it was made
// from, or more.
bool is_predicted_exactly(const Program& program) {
  return std::none_of(program.statements.begin(), program.statements.end(),
                      [](const Statement& s) { return s.op == "update" || (is_backward(s) && s.ints.at(0) != 0); });
}

// One session after another, until all steps have run.
class Training {
 public:
  Training(const ShapesRun& run, const ShapesChecks& checks, const std::vector<Size>& sizes)
      : run_(run), checks_(checks), sizes_(sizes) {
    budgets_.start_bytes = memory::live_bytes();
    budgets_.planning = run.planning;
    for (const Size& size : sizes) budgets_.plain_peak = std::max(budgets_.plain_peak, size.peak_bytes);
  }

  // What is wrong with the first step that is wrong.
  ShapesFinding run(const std::vector<size_t>& order) {
    for (const size_t index : order) {
      const Size& size = sizes_[index];
      ShapesFinding wrong = step(size);
      const int64_t left = memory::live_bytes() - budgets_.start_bytes;
      if (left > 0 && may_leak(size.program)) return {};
      if (left > 0 && wrong.fault == ShapesFault::none)
        wrong = {ShapesFault::leak, std::to_string(left) + " bytes still live after everything was dropped"};
      if (wrong.fault == ShapesFault::none) continue;
      wrong_ = &size;
      wrong.text = "size " + std::to_string(index) + ", step " + std::to_string(steps_) + ": " + wrong.text;
      return wrong;
    }
    return {};
  }

  const Size* wrong() const { return wrong_; }
  const Budgets& budgets() const { return budgets_; }
  int64_t steps() const { return steps_; }
  int64_t above_share() const { return above_share_; }
  int64_t refusals() const { return refusals_; }
  int64_t predicted() const { return predicted_; }
  int64_t named_above_plain() const { return named_above_plain_; }
  double largest_excess() const { return largest_excess_; }

 private:
  // A refused budget names one that does; the training then begins again with that.
  ShapesFinding step(const Size& size) {
    for (;;) {
      if (!scopes_ || run_.eviction) begin_session();
      ++steps_;
      const Outcome outcome = Machine(size.program, *scopes_).run();
      if (!budgets_.broken.empty()) return {ShapesFault::budget, budgets_.broken};
      const bool refused = outcome.thrown && outcome.thrown->infeasible;
      if (!refused && !owed_.empty()) return {ShapesFault::budget, owed_ + ", and the next step was not refused"};
      if (!refused) return judge(size, outcome);
      ShapesFinding wrong = judge_refusal(size, outcome);
      if (wrong.fault != ShapesFault::none) return wrong;
      if (++refusals_ > kMostBeginnings)
        return {ShapesFault::refusal, "refused again and again: " + outcome.thrown->message};
      begin_session();
    }
  }

  void begin_session() {
    scopes_ = retrace_scopes(budgets_);
    seen_.clear();
    latest_ = nullptr;
    owed_.clear();
  }

  ShapesFinding judge(const Size& size, const Outcome& outcome) {
    const Comparison compared = compare(size.plain, outcome);
    if (compared.verdict == Verdict::different) return {ShapesFault::bits, compared.text};
    ShapesFinding wrong = judge_prediction(size);
    if (wrong.fault != ShapesFault::none) return wrong;
    const bool first = seen_.empty();
    if (first) measured_ = &size;
    seen_.insert(&size);
    latest_ = &size;
    if (outcome.thrown || !run_.in_percent || budgets_.bytes.count(0) != 0) return {};
    // The first only measures, and what is like it is a share of that; of others the plain peak is simulated. Graphs
    // that LibTorch leaked in earlier programs are still there, and plain LibTorch would have all they had saved.
    const int64_t leaked = BudgetedStep::forgotten_by_ended_steps();
    const int64_t whole = budgets_.start_bytes + leaked + largest_with(size.start_bytes);
    const int64_t most = first ? whole : whole * run_.percent / 100;
    const double slack =
        &size == measured_ ? 0 : std::max(kSimulatedShare * static_cast<double>(whole), kSimulatedBytes);
    above_share_ += budgets_.step_peak_bytes > most ? 1 : 0;
    if (static_cast<double>(budgets_.step_peak_bytes - most) > slack) {
      owed_ = "a peak of " + std::to_string(budgets_.step_peak_bytes) + " above the " + std::to_string(most) +
              " that are " + std::to_string(run_.percent) + " % of the largest step so far";
    }
    return {};
  }

  // Only of a step that is like the one before: another begins by the plan of that, and changes to its own.
  ShapesFinding judge_prediction(const Size& size) {
    if (!budgets_.predicted_bytes || latest_ != &size || !is_predicted_exactly(size.program)) return {};
    ++predicted_;
    if (!checks_.predicted || budgets_.step_peak_bytes == *budgets_.predicted_bytes) return {};
    return {ShapesFault::prediction, "a peak of " + std::to_string(budgets_.step_peak_bytes) + ", and its plan said " +
                                         std::to_string(*budgets_.predicted_bytes)};
  }

  // A step that cannot do with its own share may have that of the largest so far, with what is live when it begins
  // itself.
  int64_t largest_with(int64_t start_bytes) const {
    int64_t largest = 0;
    for (const Size* const size : seen_) largest = std::max(largest, with_start(*size, start_bytes));
    return largest;
  }
  static int64_t with_start(const Size& size, int64_t start_bytes) {
    return size.peak_bytes + std::max<int64_t>(start_bytes - size.start_bytes, 0);
  }

  // By the next step, if a graph was still alive when the one before ended, or something came after its last backward:
  // then it is about a step like that one which begins with what is live now.
  ShapesFinding judge_refusal(const Size& size, const Outcome& outcome) {
    const Comparison compared = compare_before(size.plain, outcome, outcome.thrown->statement);
    if (compared.verdict == Verdict::different) return {ShapesFault::bits, compared.text};
    const int64_t plain = std::max(size.peak_bytes, latest_ != nullptr ? with_start(*latest_, size.start_bytes) : 0);
    const int64_t named = budgets_.bytes.at(0);
    if (named <= plain) return {};
    ++named_above_plain_;
    largest_excess_ = std::max(largest_excess_, static_cast<double>(named - plain) / static_cast<double>(plain));
    if (!checks_.smallest) return {};
    return {ShapesFault::refusal, "a refusal named " + std::to_string(named) + ", above plain " +
                                      std::to_string(plain) + ": " + outcome.thrown->message};
  }

  const ShapesRun& run_;
  const ShapesChecks& checks_;
  const std::vector<Size>& sizes_;
  Budgets budgets_;
  std::unique_ptr<Scopes> scopes_;
  std::set<const Size*> seen_;    // in this session
  const Size* latest_ = nullptr;  // likewise
  const Size* measured_ = nullptr;
  const Size* wrong_ = nullptr;
  int64_t steps_ = 0;
  int64_t above_share_ = 0;
  int64_t refusals_ = 0;
  int64_t predicted_ = 0;
  int64_t named_above_plain_ = 0;
  double largest_excess_ = 0;
  std::string owed_;  // why the next step is to be refused
};

void add_to(ShapesTally& tally, const std::vector<Size>& sizes, const Training& training) {
  tally.sizes += static_cast<int64_t>(sizes.size());
  tally.steps += training.steps();
  tally.above_share += training.above_share();
  tally.refusals += training.refusals();
  tally.predicted += training.predicted();
  tally.named_above_plain += training.named_above_plain();
  tally.largest_excess = std::max(tally.largest_excess, training.largest_excess());
  tally.followed += training.budgets().steps_followed;
  tally.rebuilding += training.budgets().steps_rebuilding;
}

void report(const Program& program, const ShapesFinding& wrong, const ShapesChecks& checks) {
  std::printf("\nwrong in the program of seed %llu ", static_cast<unsigned long long>(program.seed));
  const Program small = shrink(
      program, [&](const Program& p) { return check_shapes(p, checks).fault == wrong.fault; }, kMostShrinkTrials);
  std::printf("shrunk to: %s  %s\n", shapes_text(small).c_str(), check_shapes(small, checks).text.c_str());
  std::fflush(stdout);
}

}  // namespace

ShapesRun ShapesRun::of(uint64_t seed) {
  Dice dice(seed ^ 0x54a9e5ull);
  ShapesRun run;
  run.in_percent = dice.chance(0.4);
  run.percent = run.in_percent ? dice.between(50, 99) : dice.between(30, 105);
  run.best_effort = !run.in_percent && dice.chance(0.15);
  run.eviction = !run.in_percent && dice.chance(0.2);
  run.verify = dice.chance(0.2);
  run.planning = dice.chance(0.5) ? Planning::foreground : Planning::background;
  return run;
}

std::string ShapesRun::text() const {
  std::string text = std::to_string(percent) + (in_percent ? " %" : " % of the largest plain peak, in bytes");
  if (best_effort) text += ", best effort";
  if (eviction) return text + ", by eviction alone";
  return text + (planning == Planning::foreground ? ", planned in the foreground" : ", planned in the background");
}

ShapesFinding check_shapes(const Program& program, const ShapesChecks& checks, ShapesTally* tally) {
  const ShapesRun run = ShapesRun::of(program.seed);
  const std::vector<Size> sizes = measured(programs_of(program, run));
  if (sizes.size() < 2) return {};
  Training training(run, checks, sizes);
  const std::vector<size_t> order = order_of(program.seed, sizes.size());
  ShapesFinding wrong = training.run(order);
  if (tally != nullptr) add_to(*tally, sizes, training), ++tally->programs;
  if (wrong.fault == ShapesFault::none) return wrong;
  if (training.wrong() != nullptr && is_unsteady(training.wrong()->program, training.wrong()->plain)) {
    if (tally != nullptr) ++tally->unsteady;
    return {};
  }
  // LibTorch allocates some things once per process.
  if (Training(run, checks, sizes).run(order).fault == ShapesFault::none) wrong.text += " (not every time)";
  if (tally != nullptr) ++tally->different;
  return wrong;
}

std::string shapes_text(const Program& program) {
  const ShapesRun run = ShapesRun::of(program.seed);
  const std::vector<Program> programs = programs_of(program, run);
  std::string text = run.text() + "\n";
  for (size_t k = 0; k < programs.size(); ++k) text += "size " + std::to_string(k) + ": " + to_text(programs[k]);
  text += "order:";
  for (const size_t k : order_of(program.seed, programs.size())) text += " " + std::to_string(k);
  return text + "\n";
}

int64_t run_shapes(uint64_t seed, int64_t count, const ShapesChecks& checks, int64_t most_printed,
                   volatile uint64_t& current_seed) {
  ShapesTally tally;
  for (int64_t k = 0; k < count; ++k) {
    current_seed = seed + static_cast<uint64_t>(k);
    const Program program = generate(current_seed);
    const ShapesFinding wrong = check_shapes(program, checks, &tally);
    // Plans depend on measured times: a wrong prediction must come twice, and what came once is told.
    if (wrong.fault == ShapesFault::prediction && check_shapes(program, checks).fault == ShapesFault::none) {
      std::printf("seed %llu, not every time: %s\n", static_cast<unsigned long long>(current_seed), wrong.text.c_str());
      --tally.different;
      continue;
    }
    if (wrong.fault == ShapesFault::none) continue;
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(current_seed), wrong.text.c_str());
    if (tally.different <= most_printed) report(program, wrong, checks);
  }
  const auto printable = [](int64_t n) { return static_cast<long long>(n); };
  std::printf(
      "%lld sizes, %lld steps: %lld followed a plan, %lld were compared with what it predicted, %lld rebuilt "
      "something, %lld took more than their percent, "
      "%lld were refused, %lld of them naming more than the plain peak, at most by %.1f %%; unsteady in plain LibTorch "
      "%lld\n",
      printable(tally.sizes), printable(tally.steps), printable(tally.followed), printable(tally.predicted),
      printable(tally.rebuilding), printable(tally.above_share), printable(tally.refusals),
      printable(tally.named_above_plain), 100 * tally.largest_excess, printable(tally.unsteady));
  std::printf("%lld programs of changing shapes, %lld mismatches\n", printable(tally.programs),
              printable(tally.different));
  return tally.different;
}

}  // namespace retrace::random
