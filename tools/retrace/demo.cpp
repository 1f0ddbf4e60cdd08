// retrace demo: one GPT trained three times, step by step beside each other: plain, with every block checkpointed, and
// within half of plain's memory. Then a report of the plain step.
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "blas.h"
#include "commands.h"
#include "comparison.h"
#include "demo_text.h"
#include "output_path.h"
#include "plan/file/file.h"
#include "progress.h"
#include "report/ladder.h"
#include "report/median.h"
#include "report/table.h"
#include "report_file.h"
#include "snapshot.h"
#include "trainer.h"

namespace retrace::cli {

namespace {

constexpr models::GptShape kShape{.batch = 8, .length = 128, .width = 192, .heads = 6, .blocks = 6, .dropout = 0.1};
constexpr int64_t kMeasuredSteps = 3;  // the optimizer's state is there from the second on

struct Options {
  int64_t steps = 25;
  std::string text;
  std::string report = "retrace-demo.html";
};

// What the plain step is: its peak, which "half" is of, and its tape.
struct PlainStep {
  int64_t peak_bytes = 0;
  plan::Graph tape;
};

PlainStep measure_plain(const DemoText& text) {
  Trainer trainer(kShape, text.vocabulary(), Training::measured);
  Progress progress(kMeasuredSteps);
  for (int64_t step = 0; step < kMeasuredSteps; ++step, progress.advance()) {
    progress.show("measuring the plain step");
    trainer.step(text.batch(kShape.batch, step), step, 0);
    trainer.drop_gradients();
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("retrace-demo-" + std::to_string(::getpid()) + ".tape")).string();
  trainer.save_tape(path);
  PlainStep plain{trainer.peak_bytes(), plan::load_graph(path)};
  std::filesystem::remove(path);
  return plain;
}

// The trainings side by side, the plain one first.
class Comparison {
 public:
  Comparison(const DemoText& text, int64_t half_bytes) : text_(text) {
    trainers_.push_back(std::make_unique<Trainer>(kShape, text.vocabulary(), Training::plain));
    trainers_.push_back(std::make_unique<Trainer>(kShape, text.vocabulary(), Training::every_block));
    trainers_.push_back(std::make_unique<Trainer>(kShape, text.vocabulary(), Training::within_budget, half_bytes));
    ratios_.resize(trainers_.size());
  }

  // All take a step on the same batch with the same dropout. Returns what differs from the plain one, or "".
  std::string step(int64_t number) {
    const TextBatch batch = text_.batch(kShape.batch, static_cast<uint64_t>(number));
    Snapshot reference;
    for (size_t i = 0; i < trainers_.size(); ++i) {
      const Snapshot now = step_one(i, batch, static_cast<uint64_t>(number));
      if (i == 0) reference = now;
      if (const std::string difference = reference.first_difference(now); !difference.empty())
        return difference + (i == 1 ? ", with every block checkpointed," : ", within the budget,");
      ratios_[i].push_back(trainers_[i]->seconds().back() / trainers_[0]->seconds().back());
    }
    return "";
  }

  const Trainer& operator[](size_t i) const { return *trainers_[i]; }
  size_t size() const { return trainers_.size(); }
  double ratio(size_t i) const { return median(ratios_[i]); }

 private:
  Snapshot step_one(size_t i, const TextBatch& batch, uint64_t seed) {
    int64_t foreign_bytes = 0;
    for (size_t other = 0; other < trainers_.size(); ++other)
      foreign_bytes += other == i ? 0 : trainers_[other]->resident_bytes();
    Trainer& trainer = *trainers_[i];
    trainer.step(batch, seed, foreign_bytes);
    Snapshot snapshot;
    snapshot.add("the loss", at::scalar_tensor(trainer.loss(), at::kDouble));
    const auto& model = trainer.model();
    for (size_t p = 0; p < model.parameters.size(); ++p)
      snapshot.add("the gradient of " + model.parameter_names[p], model.parameters[p].grad());
    trainer.drop_gradients();
    return snapshot;
  }

  const DemoText& text_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<std::vector<double>> ratios_;
};

void print(const Comparison& trainings, bool identical) {
  using report::fixed, report::human_bytes, report::human_seconds;
  report::Table table({"", "plain", "every block", "half of plain"});
  const auto add_row = [&](const std::string& what, auto&& cell) {
    std::vector<std::string> cells{what};
    for (size_t i = 0; i < trainings.size(); ++i) cells.push_back(cell(i));
    table.add_row(std::move(cells));
  };
  add_row("peak bytes", [&](size_t i) { return human_bytes(trainings[i].peak_bytes()); });
  add_row("activation bytes", [&](size_t i) { return human_bytes(trainings[i].activation_bytes()); });
  add_row("time of a step", [&](size_t i) { return human_seconds(median(trainings[i].seconds())); });
  add_row("time ratio", [&](size_t i) { return fixed(trainings.ratio(i), 2); });
  add_row("final loss", [&](size_t i) { return fixed(trainings[i].loss(), 6); });
  add_row("gradients identical", [&](size_t i) { return std::string(i == 0 ? "" : identical ? "yes" : "NO"); });
  std::cout << table.str();
}

void print_headline(const Comparison& trainings) {
  const Trainer &plain = trainings[0], &half = trainings[2];
  std::cout << "\nWithin half of the plain run's memory ("
            << report::fixed(100.0 * static_cast<double>(half.peak_bytes()) / static_cast<double>(plain.peak_bytes()),
                             1)
            << " %) a step takes " << report::fixed(trainings.ratio(2), 2)
            << " times as long, and every gradient is the same to the last bit. It takes this:\n\n"
            << "  retrace::Session session(retrace::budget(\"50%\"));\n"
            << "  ... auto step = session.step();  // in the loop, before forward\n\n";
}

void write_report_of(const PlainStep& plain, const std::string& path) {
  try {
    write_report(plain.tape, "retrace demo", std::nullopt, report::usual_rungs(plain.tape), path);
    std::cout << "Report of the plain step, and of every policy and budget for it: "
              << std::filesystem::absolute(path).string() << " (open it in a browser)\n";
  } catch (const BadInput& error) {
    std::cout << "No report was written: " << error.what() << "\n";
  }
}

int run(const Options& options) {
  if (options.steps < 1) {
    throw BadInput("[demo] --steps " + std::to_string(options.steps) +
                   " leaves nothing to train. Use 1 or more; 25 is the default.");
  }
  check_writable("demo", options.report, "--report");
  warn_of_reference_blas();
  at::set_num_threads(1);
  const DemoText text(options.text, kShape.length);
  std::cout << "A GPT of " << kShape.blocks << " blocks learns " << text.characters() << " characters of text, "
            << options.steps << " steps, three times: plain, with every block checkpointed, and within half of plain's "
            << "memory.\n\n"
            << std::flush;
  const PlainStep plain = measure_plain(text);
  Comparison trainings(text, plain.peak_bytes / 2);
  std::string difference;
  int64_t step = 0;
  {
    Progress progress(options.steps);
    for (; step < options.steps && difference.empty(); ++step, progress.advance()) {
      const std::string loss = step > 0 ? ", loss " + report::fixed(trainings[0].loss(), 4) : "";
      progress.show("step " + std::to_string(step + 1) + " of " + std::to_string(options.steps) + loss);
      difference = trainings.step(step);
    }
  }
  print(trainings, difference.empty());
  if (!difference.empty()) {
    std::cerr << "retrace: [demo] step " << step << ": " << difference
              << " differs from the plain run; training stopped there. This is a bug of Retrace; please report it.\n";
    return kFailed;
  }
  print_headline(trainings);
  write_report_of(plain, options.report);
  return kOk;
}

}  // namespace

void add_demo(CLI::App& program, int& exit_code) {
  auto* const demo =
      program.add_subcommand("demo", "Train a small GPT plain, checkpointed and within half the memory, side by side");
  const auto options = std::make_shared<Options>();
  demo->add_option("--steps", options->steps, "Training steps")->capture_default_str();
  demo->add_option("--text", options->text, "A text to learn instead of the one that ships with Retrace");
  demo->add_option("--report", options->report, "The page that it ends with")->capture_default_str();
  demo->footer("\nExample:\n  retrace demo --steps 20");
  demo->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
