#include "runner.h"

#include <algorithm>

#include <retrace/errors.h>
#include <retrace/memory.h>
#include <retrace/sequential.h>

#include "commands.h"
#include "policy/parse.h"
#include "policy/rules.h"

namespace retrace::cli {

namespace {

void check_segments(const std::string& policy, int64_t segments, const models::Model& model) {
  const auto layers = static_cast<int64_t>(model.layers.size());
  if (segments <= layers) return;
  throw BadInput(
      "[bench] policy '" + policy + "': " + model.name + " has " + std::to_string(layers) +
      " layers and cannot be cut into more segments than that, nothing was run. Use sequential:1 to sequential:" +
      std::to_string(layers) + ".");
}

constexpr std::string_view kEviction = "eviction:";

// In percent the first step only measures.
void check_eviction(const std::string& policy, bool evicts, const Budget& budget) {
  if (!evicts || budget.bytes()) return;
  throw BadInput("[bench] policy '" + policy +
                 "' is in percent, and every step of it is the first of a session, which " +
                 "would only measure; nothing was run. Give it in bytes: eviction:270MiB.");
}

}  // namespace

Runner::Runner(const std::string& policy, const models::Model& model)
    : name_(policy), evicts_(policy.starts_with(kEviction)) {
  if (policy == "plain") return;
  if (policy.starts_with("sequential")) {
    segments_ = parse_count(policy);
    check_segments(policy, segments_, model);
    return;
  }
  const auto selective_of = [](const auto& operators) { return selective(operators); };
  const std::string spelling = evicts_ ? "budget:" + policy.substr(kEviction.size()) : policy;
  const Policy parsed = parse_policy(spelling, selective_of, {"plain", "sequential:N", "eviction:B"});
  SessionOptions options;
  if (const Budget* const asked = parsed.rules().budget()) {
    budget_bytes_ = asked->bytes();
    options.planning = Planning::foreground;  // the same plan in every run
    check_eviction(policy, evicts_, *asked);
  }
  session_.emplace(parsed, options);
}

StepResult Runner::step(const models::Model& model) {
  if (!session_) return pass(model);
  if (evicts_) session_.emplace(Policy(session_->policy()), SessionOptions{.verify = Verify::never});
  const auto step = session_->step();
  return pass(model);
}

StepResult Runner::pass(const models::Model& model) const {
  const at::Tensor input = model.input();
  at::Tensor x = input;
  if (segments_ > 0) {
    x = checkpoint_sequential(model.layers, segments_, std::move(x));
  } else {
    for (const models::Layer& layer : model.layers) x = layer(std::move(x));
  }
  // A training loop has the output in a variable until the step ends, and so have the peers this is compared with.
  const at::Tensor output = model.output(std::move(x));
  const at::Tensor loss = model.criterion(output);
  StepResult result{loss.detach(), {}, memory::live_bytes()};
  loss.backward();
  if (input.requires_grad()) result.input_gradient = input.grad();
  return result;
}

std::vector<std::string> sweep_of_budgets(const models::Model& model, int64_t count) {
  const auto drop_gradients = [&] {
    for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
  };
  drop_gradients();
  memory::reset_peak();
  Runner("plain", model).step(model);
  const int64_t largest = memory::peak_bytes();
  drop_gradients();
  int64_t smallest = largest;
  try {
    Runner("budget:1", model).step(model);
  } catch (const InfeasibleBudget& refusal) {
    smallest = refusal.smallest_bytes;
  }
  drop_gradients();
  std::vector<std::string> policies;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bytes = count == 1 ? smallest : smallest + (largest - smallest) * i / (count - 1);
    policies.push_back("budget:" + std::to_string(bytes));
  }
  return policies;
}

std::vector<std::string> default_policies(const models::Model& model) {
  const size_t segments = std::min<size_t>(8, model.layers.size());
  return {"plain", "keep_all", "sequential:" + std::to_string(segments), "every:1", "selective", "recompute_all"};
}

}  // namespace retrace::cli
