// retrace trace: one training step of a model, as a tape file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <CLI/CLI.hpp>

#include <retrace/memory.h>
#include <retrace/session.h>

#include "blas.h"
#include "commands.h"
#include "near_names.h"
#include "output_path.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "progress.h"
#include "report/table.h"
#include "traced_model.h"

namespace retrace::cli {
namespace {

constexpr const char* kHelp = R"(
A tape is one training step as data: every operator with its seconds, every value with its bytes, what autograd saved, and
when forward, backward and the optimizer did what. 'retrace explain', 'plan' and 'frontier' read it, without the model and on
any machine. A program of your own writes the same with session.save_tape("run.tape").

The step runs as the plain program does: nothing is forgotten, and the peak on the tape is the plain one to the byte. It runs
after a warm-up, several times (--steps), each on one thread unless told otherwise; an operator's time is its shortest.

Models: mlp, gpt, resnet50, unet, lstm, vit, with a batch of random data. Sizes that are not given are those of 'retrace bench'.
  --batch N    all                         --heads N    gpt, vit
  --seq N      gpt, lstm                   --side N     resnet50, unet, vit: images of N x N
  --layers N   gpt, lstm, unet, vit        --width N    all

A file is TorchScript as torch.jit.save() writes it. Each --input is a tensor of random content:
  f32[8,3,224,224]    floats: f16, bf16, f32, f64
  i64[4,128]:50257    whole numbers from 0 to 50256: u8, i8, i16, i32, i64; without a limit they are 0 or 1
  bool[4,128]         a mask
--loss says what backward begins with: the mean of all outputs, their sum, the mean of their squares (square), or the one
number that the model gives (output).

Examples:
  retrace trace gpt -o gpt.tape
  retrace trace gpt --batch 8 --seq 512 --layers 4 --width 256 --optimizer adamw -o run.tape
  retrace trace resnet.pt --input f32[8,3,224,224] -o run.tape
  retrace trace bert.pt --input i64[4,128]:30522 --input i64[4,128] -o run.tape

Exit codes: 0 the tape was written, 1 the step failed, 2 the command line or the file cannot be meant. Nothing half-written
is left behind.)";

struct Options {
  std::string model;
  std::string output = "run.tape";
  models::Extents extents;
  std::string size = "bench";
  std::string optimizer = "none";
  ScriptOptions script;
  int64_t steps = 2;
  int threads = 1;
};

bool has_extents(const models::Extents& e) {
  return e.batch != 0 || e.length != 0 || e.layers != 0 || e.width != 0 || e.heads != 0 || e.side != 0;
}

void check_is_one_of(const std::string& option, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw BadInput("[trace] " + option + " '" + name + "' is not known, nothing was run" + did_you_mean(name, known) +
                 " It is one of " + join(known) + ".");
}

bool is_model(const std::string& name) {
  return std::find(models::names().begin(), models::names().end(), name) != models::names().end();
}

// "gpt", or the path of a file.
void check_model(const Options& options) {
  const auto& names = models::names();
  if (options.model.empty())
    throw BadInput("[trace] no model is named, nothing was run. Name one of " + join(names) +
                   ", or a TorchScript file.");
  std::error_code ignored;
  if (is_model(options.model) || std::filesystem::exists(options.model, ignored)) return;
  const bool is_path = options.model.find_first_of("./") != std::string::npos;
  if (is_path) throw BadInput("[trace] there is no file '" + options.model + "', nothing was run. Check the path.");
  throw BadInput("[trace] no model and no file is called '" + options.model + "', nothing was run" +
                 did_you_mean(options.model, names) + " The models are " + join(names) + ".");
}

void check_options(const Options& options) {
  check_model(options);
  check_is_one_of("--size", options.size, {"bench", "test"});
  check_is_one_of("--optimizer", options.optimizer, {"none", "sgd", "adamw"});
  if (is_model(options.model) &&
      (!options.script.inputs.empty() || options.script.loss != "mean" || options.script.train_all))
    throw BadInput("[trace] " + options.model +
                   " has its own batch and loss, nothing was run. --input, --loss and --train-all are for TorchScript "
                   "files; see --batch and the other sizes.");
  if (!is_model(options.model) && has_extents(options.extents))
    throw BadInput("[trace] '" + options.model +
                   "' is a file, whose sizes are its own, nothing was run. Say the shape of its inputs with --input.");
  check_writable("trace", options.output);
}

TracedModel make(const Options& options) {
  if (!is_model(options.model)) return traced_script(options.model, options.script);
  const auto size = options.size == "test" ? models::Size::test : models::Size::bench;
  return traced_model(options.model, size, options.extents);
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const TracedModel& model) {
  if (name == "sgd")
    return std::make_unique<torch::optim::SGD>(model.parameters, torch::optim::SGDOptions(1e-4).momentum(0.9));
  if (name == "adamw") return std::make_unique<torch::optim::AdamW>(model.parameters, torch::optim::AdamWOptions(1e-4));
  return nullptr;
}

// A step too large for the machine ends in an error that says so, not in a process that the system kills.
void limit_to_available_memory() {
  std::ifstream info("/proc/meminfo");
  int64_t kib = 0, available = 0;
  for (std::string key, unit; info >> key >> kib && std::getline(info, unit);) {
    if (key == "MemAvailable:") available = kib * 1024;
  }
  if (available > 0) memory::set_limit(memory::live_bytes() + available);
}

void run_steps(Session& session, const TracedModel& model, const Options& options) {
  const auto optimizer = make_optimizer(options.optimizer, model);
  const int64_t total = model.warm_ups + options.steps;
  Progress progress(total);
  for (int64_t i = 0; i < total; ++i) {
    progress.show(i < model.warm_ups ? "warming up" : "recording");
    for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
    const auto step = session.step();
    const at::Tensor loss = model.loss();
    loss.backward();
    if (optimizer) optimizer->step();
    progress.advance();
  }
}

void describe(const std::string& name, const std::string& path) {
  using report::human_bytes;
  const plan::Graph graph = plan::load_graph(path);
  const plan::Outcome plain = plan::plain(graph);
  std::cout << name << ": " << graph.ops.size() << " operators in forward, " << report::human_seconds(graph.seconds)
            << " a step, peak " << human_bytes(plain.peak_bytes) << " (weights " << human_bytes(graph.weight_bytes)
            << ").\nWritten to " << path << ". Next: retrace explain " << path << "\n";
}

int run(const Options& options) {
  check_options(options);
  warn_of_reference_blas();
  at::set_num_threads(options.threads);
  limit_to_available_memory();
  // 100 % of the plain peak: every step runs as the plain program does, and is measured.
  Session session(budget("100%"), SessionOptions{.verify = Verify::never, .planning = Planning::foreground});
  try {
    const TracedModel model = make(options);
    session.name(model.names);
    run_steps(session, model, options);
    session.save_tape(options.output);
    describe(model.name, options.output);
  } catch (const c10::Error& error) {
    const std::string what = first_line(error);
    const bool too_large = what.starts_with("[retrace::memory]");  // see limit_to_available_memory()
    std::cerr << "retrace: [trace] " << options.model << ": the step "
              << (too_large ? "needs more memory than this machine has free" : "failed") << " (" << what
              << "), no tape was written. Try other sizes.\n";
    return kFailed;
  }
  return kOk;
}

}  // namespace

void add_trace(CLI::App& program, int& exit_code) {
  auto* const trace = program.add_subcommand("trace", "Record one training step of a model as a tape file");
  const auto options = std::make_shared<Options>();
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  trace->add_option("MODEL|FILE.pt", options->model, join(models::names()) + "; or a TorchScript file");
  trace->add_option("-o,--output", options->output, "The tape file to write")->capture_default_str();
  trace->add_option("--batch", options->extents.batch, "Samples")->check(positive);
  trace->add_option("--seq", options->extents.length, "Tokens of a sample")->check(positive);
  trace->add_option("--layers", options->extents.layers, "Blocks, layers or levels")->check(positive);
  trace->add_option("--width", options->extents.width, "Features or channels")->check(positive);
  trace->add_option("--heads", options->extents.heads, "Of attention")->check(positive);
  trace->add_option("--side", options->extents.side, "Pixels along an image's side")->check(positive);
  trace->add_option("--size", options->size, "What the other sizes are: bench, or test for a miniature")
      ->capture_default_str();
  trace->add_option("--input", options->script.inputs, "Of a TorchScript file: f32[8,3,224,224], once per tensor");
  trace->add_option("--loss", options->script.loss, "Of a TorchScript file: " + join(script_losses()))
      ->capture_default_str();
  trace->add_flag("--train-all", options->script.train_all, "Every parameter of the file requires a gradient");
  trace->add_option("--optimizer", options->optimizer, "none, sgd or adamw: part of the step")->capture_default_str();
  trace->add_option("--steps", options->steps, "Steps to take the shortest times of")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  trace->add_option("--threads", options->threads, "Of LibTorch")->check(CLI::Range(1, 1024))->capture_default_str();
  trace->footer(kHelp);
  trace->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
