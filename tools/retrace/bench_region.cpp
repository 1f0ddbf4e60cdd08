// retrace bench region: what one tiny checkpoint costs, whatever is in it, and what recording one tiny operator costs.
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <retrace/checkpoint.h>
#include <retrace/session.h>

#include "commands.h"
#include "comparison.h"
#include "report/median.h"
#include "report/table.h"

namespace retrace::cli {

namespace {

// Rounds are shorter than the slices a scheduler hands out, so that most of them run undisturbed, and many, so that the
// median is one of those.
constexpr int kRounds = 1501;
constexpr int kStepsPerRound = 8;

constexpr const char* kDiffers = "[bench region] a gradient differs from the plain one. No time is printed.";

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

struct Region {
  std::vector<double> plain, checkpointed, cost;  // microseconds
};

Region time_region() {
  const at::Tensor x = at::full({}, 0.5).requires_grad_();
  if (!gradient(x, false).equal(gradient(x, true))) throw std::runtime_error(kDiffers);
  Region region;
  for (int round = 0; round < kRounds; ++round) {
    region.plain.push_back(microseconds_per_step(x, false));
    region.checkpointed.push_back(microseconds_per_step(x, true));
    region.cost.push_back(region.checkpointed.back() - region.plain.back());
  }
  return region;
}

// -- A long chain of tiny operators: what recording one costs, forward and backward together --

constexpr int kChainOps = 10'000;
constexpr int kChainRounds = 15, kWarmUp = 4;

at::Tensor chain_gradient(const at::Tensor& x) {
  x.mutable_grad().reset();
  at::Tensor y = x;
  for (int i = 0; i < kChainOps / 2; ++i) y = y.sin().cos();
  y.sum().backward();
  return x.grad();
}

at::Tensor chain_gradient(const at::Tensor& x, Session* session) {
  if (!session) return chain_gradient(x);
  const auto step = session->step();
  return chain_gradient(x);
}

struct Chain {
  std::vector<std::string> names;
  std::vector<std::vector<double>> microseconds;  // by name, per operator
  std::vector<std::vector<double>> cost;          // the same above the plain one of its round
};

Chain time_chain() {
  const at::Tensor x = at::full({4}, 0.5).requires_grad_();
  Session keeps(keep_all()), budgeted(budget("1GiB"));
  Session* const sessions[] = {nullptr, &keeps, &budgeted};
  Chain chain{{"plain", "keep_all", "a budget that is never short"}, {{}, {}, {}}, {{}, {}, {}}};
  const at::Tensor expected = chain_gradient(x).clone();
  for (int round = -kWarmUp; round < kChainRounds; ++round) {
    for (size_t i = 0; i < std::size(sessions); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const at::Tensor found = chain_gradient(x, sessions[i]);
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
      if (!found.equal(expected)) throw std::runtime_error(kDiffers);
      if (round < 0) continue;
      chain.microseconds[i].push_back(taken.count() / kChainOps);
      chain.cost[i].push_back(chain.microseconds[i].back() - chain.microseconds[0].back());
    }
  }
  return chain;
}

void print_json(const Region& region, const Chain& chain) {
  nlohmann::ordered_json row = {{"model", "region"},
                                {"plain_microseconds", median(region.plain)},
                                {"checkpointed_microseconds", median(region.checkpointed)},
                                {"region_microseconds", median(region.cost)},
                                {"gradients_identical", true}};
  for (size_t i = 0; i < chain.names.size(); ++i) {
    row["chain"].push_back({{"name", chain.names[i]},
                            {"microseconds_per_operator", median(chain.microseconds[i])},
                            {"above_plain", median(chain.cost[i])}});
  }
  std::cout << row.dump(2) << "\n";
}

void print_tables(const Region& region, const Chain& chain) {
  report::Table table({"forward and backward of x.sin().cos()", "us"});
  table.add_row({"plain", report::fixed(median(region.plain), 1)});
  table.add_row({"in a checkpoint", report::fixed(median(region.checkpointed), 1)});
  table.add_row({"cost of the region", report::fixed(median(region.cost), 1)});
  std::cout << table.str() << "\n";
  report::Table operators({"a chain of 10,000 such operators", "us per operator", "above plain"});
  for (size_t i = 0; i < chain.names.size(); ++i) {
    operators.add_row(
        {chain.names[i], report::fixed(median(chain.microseconds[i]), 2), report::fixed(median(chain.cost[i]), 2)});
  }
  std::cout << operators.str();
}

int run(bool json) {
  at::set_num_threads(1);
  try {
    const Region region = time_region();
    const Chain chain = time_chain();
    json ? print_json(region, chain) : print_tables(region, chain);
  } catch (const std::runtime_error& error) {
    std::cerr << "retrace: " << error.what() << "\n";
    return kFailed;
  }
  return kOk;
}

}  // namespace

void add_bench_region(CLI::App& bench, const bool& json, int& exit_code) {
  auto* const region = bench.add_subcommand(
      "region", "The fixed cost of one tiny checkpoint, and of recording one tiny operator, in microseconds");
  region->fallthrough();  // --json is the parent's
  region->callback([&json, &exit_code] { exit_code = run(json); });
}

}  // namespace retrace::cli
