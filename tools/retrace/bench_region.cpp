// retrace bench region: what one tiny checkpoint costs, whatever is in it.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <retrace/checkpoint.h>

#include "commands.h"
#include "comparison.h"
#include "report/table.h"

namespace retrace::cli {

namespace {

// Rounds are shorter than the slices a scheduler hands out, so that most of them run undisturbed, and many, so that the
// median is one of those.
constexpr int kRounds = 1501;
constexpr int kStepsPerRound = 8;

// The smallest region that has something to rebuild: the cosine saves the sine's result, which is forgotten.
at::Tensor tiny(const at::Tensor& x) { return x.sin().cos(); }

at::Tensor gradient(const at::Tensor& x, bool checkpointed) {
  x.mutable_grad().reset();
  (checkpointed ? checkpoint(tiny, x) : tiny(x)).backward();
  return x.grad();
}

double microseconds_per_step(const at::Tensor& x, bool checkpointed) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kStepsPerRound; ++i) gradient(x, checkpointed);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / kStepsPerRound;
}

int run(bool json) {
  at::set_num_threads(1);
  const at::Tensor x = at::full({}, 0.5).requires_grad_();
  const at::Tensor plain_gradient = gradient(x, false), checkpointed_gradient = gradient(x, true);
  if (!plain_gradient.equal(checkpointed_gradient)) {
    std::cerr << "retrace: [bench region] the checkpoint's gradient differs from the plain one. No time is printed.\n";
    return kFailed;
  }
  std::vector<double> plain, checkpointed, cost;
  for (int round = 0; round < kRounds; ++round) {
    plain.push_back(microseconds_per_step(x, false));
    checkpointed.push_back(microseconds_per_step(x, true));
    cost.push_back(checkpointed.back() - plain.back());
  }
  if (json) {
    const nlohmann::ordered_json row = {{"model", "region"},
                                        {"plain_microseconds", median(plain)},
                                        {"checkpointed_microseconds", median(checkpointed)},
                                        {"region_microseconds", median(cost)},
                                        {"gradients_identical", true}};
    std::cout << row.dump(2) << "\n";
    return kOk;
  }
  report::Table table({"forward and backward of x.sin().cos()", "us"});
  table.add_row({"plain", report::fixed(median(plain), 1)});
  table.add_row({"in a checkpoint", report::fixed(median(checkpointed), 1)});
  table.add_row({"cost of the region", report::fixed(median(cost), 1)});
  std::cout << table.str();
  return kOk;
}

}  // namespace

void add_bench_region(CLI::App& bench, const bool& json, int& exit_code) {
  auto* const region = bench.add_subcommand("region", "The fixed cost of one tiny checkpoint, in microseconds");
  region->fallthrough();  // --json is the parent's
  region->callback([&json, &exit_code] { exit_code = run(json); });
}

}  // namespace retrace::cli
