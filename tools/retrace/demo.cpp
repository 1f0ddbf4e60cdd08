// retrace demo: one GPT trained twice, plain and checkpointed, step by step beside each other.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "blas.h"
#include "commands.h"
#include "comparison.h"
#include "demo_text.h"
#include "progress.h"
#include "report/table.h"
#include "snapshot.h"
#include "trainer.h"

namespace retrace::cli {

namespace {

constexpr models::GptShape kShape{.batch = 8, .length = 128, .width = 192, .heads = 6, .blocks = 6, .dropout = 0.1};

struct Options {
  int64_t steps = 40;
  std::string text;
};

// Both trainings take a step on the same batch with the same dropout. Returns what differs between them, or "".
std::string step_both(Trainer& plain, Trainer& checkpointed, const TextBatch& batch, uint64_t seed) {
  const auto run = [&](Trainer& trainer, const Trainer& other) {
    trainer.step(batch, seed, other.resident_bytes());
    Snapshot snapshot;
    snapshot.add("the loss", at::scalar_tensor(trainer.loss(), at::kDouble));
    const auto& model = trainer.model();
    for (size_t i = 0; i < model.parameters.size(); ++i) {
      snapshot.add("the gradient of " + model.parameter_names[i], model.parameters[i].grad());
    }
    trainer.drop_gradients();
    return snapshot;
  };
  const Snapshot reference = run(plain, checkpointed);
  return reference.first_difference(run(checkpointed, plain));
}

std::string progress_line(const Trainer& plain, const Trainer& checkpointed, int64_t step, int64_t steps) {
  const std::string line = "step " + std::to_string(step + 1) + " of " + std::to_string(steps);
  if (step == 0) return line;
  return line + ", loss " + report::fixed(plain.loss(), 4) + " plain, " + report::fixed(checkpointed.loss(), 4) +
         " checkpointed";
}

void print(const Trainer& plain, const Trainer& checkpointed, const std::vector<double>& ratios, bool identical) {
  using report::fixed, report::human_bytes, report::human_seconds;
  report::Table table({"", "plain", "checkpointed"});
  table.add_row({"peak bytes", human_bytes(plain.peak_bytes()), human_bytes(checkpointed.peak_bytes())});
  table.add_row(
      {"activation bytes", human_bytes(plain.activation_bytes()), human_bytes(checkpointed.activation_bytes())});
  table.add_row(
      {"time of a step", human_seconds(median(plain.seconds())), human_seconds(median(checkpointed.seconds()))});
  table.add_row({"time ratio", "1.00", fixed(median(ratios), 2)});
  table.add_row({"final loss", fixed(plain.loss(), 6), fixed(checkpointed.loss(), 6)});
  table.add_row({"gradients identical", "", identical ? "yes" : "NO"});
  std::cout << table.str();
}

int run(const Options& options) {
  if (options.steps < 1) {
    throw BadInput("[demo] --steps " + std::to_string(options.steps) +
                   " leaves nothing to train. Use 1 or more; 40 is the default.");
  }
  warn_of_reference_blas();
  at::set_num_threads(1);
  const DemoText text(options.text, kShape.length);
  Trainer plain(kShape, text.vocabulary(), false), checkpointed(kShape, text.vocabulary(), true);
  std::cout << "A GPT of " << kShape.blocks << " blocks learns " << text.characters() << " characters of text, "
            << options.steps << " steps, twice: plain, and with every block checkpointed.\n"
            << std::flush;
  std::string difference;
  std::vector<double> ratios;
  {
    Progress progress(options.steps);
    for (int64_t step = 0; step < options.steps && difference.empty(); ++step, progress.advance()) {
      progress.show(progress_line(plain, checkpointed, step, options.steps));
      difference = step_both(plain, checkpointed, text.batch(kShape.batch, step), step);
      ratios.push_back(checkpointed.seconds().back() / plain.seconds().back());
    }
  }
  print(plain, checkpointed, ratios, difference.empty());
  if (difference.empty()) return kOk;
  std::cerr << "retrace: [demo] step " << plain.seconds().size() << ": " << difference
            << " differs from the plain run; training stopped there. This is a bug of Retrace; please report it.\n";
  return kFailed;
}

}  // namespace

void add_demo(CLI::App& program, int& exit_code) {
  auto* const demo = program.add_subcommand("demo", "Train a small GPT plain and checkpointed, side by side");
  const auto options = std::make_shared<Options>();
  demo->add_option("--steps", options->steps, "Training steps")->capture_default_str();
  demo->add_option("--text", options->text, "A text to learn instead of the one that ships with Retrace");
  demo->footer("\nExample:\n  retrace demo --steps 20");
  demo->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
