// retrace doctor: from an out-of-memory error to a policy.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <retrace/budget.h>
#include <retrace/errors.h>

#include "commands.h"
#include "doctor/diagnosis.h"
#include "doctor/tape_diagnosis.h"
#include "plan/file/disk.h"
#include "progress.h"
#include "tape_input.h"

namespace retrace::cli {
namespace {

constexpr const char* kExamples = R"(
Three ways to ask:
  retrace doctor --model llama3-8b --seq 8192 --batch 4 --device h100           a description
  retrace doctor run.tape --memory 2GiB                                         a recorded step
  retrace doctor b4.tape b8.tape --memory 2GiB                                  the same at two batch sizes: any batch
and with any of them, the text of the error:
  python train.py 2>&1 | retrace doctor --oom - --params 7B --seq 8192

More:
  retrace doctor --params 70B --memory 80GiB                                    more than checkpointing is needed
  retrace doctor --params 7B --seq 8192 --published --tensors                   every figure, beside published ones
  retrace doctor --layers 24 --hidden 1024 --family gpt --attention math --dtype fp32 --device cpu --memory 16GiB

Exit codes: 0 there is an answer (that it does not fit, too), 1 something broke, 2 the command line or a file cannot be meant.
How every figure is computed: docs/doctor.md.)";

constexpr size_t kMostText = 1 << 20;  // of an error; a log's end is what matters

struct Given {
  std::vector<std::string> tapes, batches;
  std::string model, params, layers, hidden, heads, kv_heads, ffn, vocab, seq, batch;
  std::string family, attention, norm, dtype, optimizer;
  bool tied = false, pure = false;
  std::string memory, device, reserve, oom;
  bool json = false, tensors = false, published = false;
};

std::optional<std::string> text_of(const std::string& value) {
  return value.empty() ? std::nullopt : std::optional(value);
}

std::optional<int64_t> number_of(const char* option, const std::string& value, int64_t thousand = 1000) {
  return value.empty() ? std::nullopt : std::optional(doctor::count_of(option, value, thousand));
}

bool describes(const Given& given) {
  for (const std::string* value : {&given.model, &given.params, &given.layers, &given.hidden}) {
    if (!value->empty()) return true;
  }
  return false;
}

doctor::Description description_of(const Given& given) {
  doctor::Description said;
  said.model = text_of(given.model);
  said.params = number_of("params", given.params);
  said.layers = number_of("layers", given.layers);
  said.hidden = number_of("hidden", given.hidden);
  said.heads = number_of("heads", given.heads);
  said.kv_heads = number_of("kv-heads", given.kv_heads);
  said.ffn = number_of("ffn", given.ffn);
  said.vocab = number_of("vocab", given.vocab);
  said.seq = number_of("seq", given.seq, 1024);  // a context of 8k is one of 8192
  said.batch = number_of("batch", given.batch);
  said.family = text_of(given.family);
  said.attention = text_of(given.attention);
  said.norm = text_of(given.norm);
  said.dtype = text_of(given.dtype);
  said.optimizer = text_of(given.optimizer);
  said.tied = given.tied;
  said.pure = given.pure;
  said.on_cpu = given.device == "cpu";
  return said;
}

std::string standard_input() {
  std::string text, chunk(kMostText, '\0');
  while (std::cin.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), std::cin.gcount() > 0) {
    text.append(chunk, 0, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMostText) text.erase(0, text.size() - kMostText);
  }
  return text;
}

std::optional<doctor::OomMessage> oom_of(const Given& given) {
  if (given.oom.empty()) return std::nullopt;
  return doctor::read_oom(given.oom == "-" ? standard_input() : plan::read_whole("doctor", given.oom));
}

int64_t bytes_of(const char* option, const std::string& text, int64_t whole) {
  const auto& known = doctor::devices();
  if (std::any_of(known.begin(), known.end(), [&](const doctor::Device& device) { return device.name == text; }))
    throw BadInput(std::string("--") + option + " " + text + " is the name of a device: say --device " + text + ".");
  const Budget amount = [&] {
    try {
      return budget(text);
    } catch (const UsageError& error) {
      const std::string why = error.what();  // "[budget] 'lots': ..."
      throw BadInput(std::string("[doctor] --") + option + why.substr(why.find(' ')));
    }
  }();
  if (amount.bytes()) return *amount.bytes();
  if (whole == 0)
    throw BadInput(std::string("--") + option + " " + text + ": percent of what? Say an amount such as 80GiB.");
  return static_cast<int64_t>(*amount.fraction() * static_cast<double>(whole));
}

// Retrace's limits and budgets count tensors alone: nothing need be kept free.
bool of_retrace(const std::optional<doctor::OomMessage>& oom) {
  return oom && (oom->source == doctor::OomSource::retrace_limit || oom->source == doctor::OomSource::retrace_budget);
}

doctor::Memory memory_of(const Given& given, const doctor::Device& device,
                         const std::optional<doctor::OomMessage>& oom) {
  doctor::Memory memory;
  if (!given.memory.empty()) {
    memory = {bytes_of("memory", given.memory, 0), 0, device.name.empty() ? "the device" : device.name};
  } else if (device.memory_bytes > 0) {
    memory = {device.memory_bytes, 0, device.name};
  } else if (oom && oom->capacity_bytes) {
    const bool device_said = oom->source == doctor::OomSource::gpu || oom->source == doctor::OomSource::mps;
    memory = {*oom->capacity_bytes, 0, device_said ? "the device of the message" : "the program of the message"};
  }
  if (!given.reserve.empty()) {
    memory.reserved = given.reserve == "0" ? 0 : bytes_of("reserve", given.reserve, memory.bytes);
  } else if (given.tapes.empty() && device.name != "cpu" && !of_retrace(oom)) {
    memory.reserved = static_cast<int64_t>(doctor::kUsualReserve * static_cast<double>(memory.bytes));
  }
  if (memory.bytes > 0 && memory.reserved >= memory.bytes) throw BadInput("--reserve leaves nothing of the memory.");
  return memory;
}

std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::optional<std::pair<int64_t, int64_t>> batches_of(const Given& given) {
  if (given.batches.empty()) return std::nullopt;
  if (given.batches.size() != 2)
    throw BadInput("--batches takes two numbers, of the first tape and of the second: --batches 4 8.");
  return std::pair(doctor::count_of("batches", given.batches[0]), doctor::count_of("batches", given.batches[1]));
}

std::string answer_of_tapes(const Given& given, const doctor::Memory& memory,
                            const std::optional<doctor::OomMessage>& oom) {
  if (describes(given)) throw BadInput("a tape and a description cannot both be meant. Leave one of them out.");
  if (given.tapes.size() > 2)
    throw BadInput("one tape, or two of different batch sizes: more say nothing new. Leave some out.");
  const Progress progress(1);
  progress.show("looking for plans");
  doctor::TapeRequest request{.source = name_of(given.tapes[0]), .memory = memory, .oom = oom};
  if (!given.optimizer.empty()) request.optimizer = doctor::optimizer_of(given.optimizer);
  const auto text = [&](const doctor::TapeDiagnosis& d) {
    return given.json ? doctor::to_json(d) : doctor::to_text(d);
  };
  if (given.tapes.size() == 1) {
    if (!given.batch.empty())
      throw BadInput("--batch needs two tapes of different batch sizes: from one, no other batch is known.");
    return text(doctor::diagnose(read_tape("doctor", given.tapes[0]), request));
  }
  request.source += " and " + name_of(given.tapes[1]);
  const doctor::TwoTapes tapes(read_tape("doctor", given.tapes[0]), read_tape("doctor", given.tapes[1]),
                               batches_of(given));
  const int64_t batch = given.batch.empty() ? std::max(tapes.first_batch(), tapes.second_batch())
                                            : doctor::count_of("batch", given.batch);
  if (batch < 1) throw BadInput("--batch " + given.batch + ": a batch is at least 1.");
  return text(doctor::diagnose(tapes, batch, request));
}

std::string answer(const Given& given) {
  const doctor::Device device = given.device.empty() ? doctor::Device{} : doctor::device_of(given.device);
  const auto oom = oom_of(given);
  const doctor::Memory memory = memory_of(given, device, oom);
  if (!given.tapes.empty()) return answer_of_tapes(given, memory, oom);
  if (oom && !describes(given)) return given.json ? doctor::to_json(*oom) : doctor::to_text(*oom);
  const auto diagnosis = doctor::diagnose(doctor::complete(description_of(given)), device, memory, oom);
  return given.json ? doctor::to_json(diagnosis)
                    : doctor::to_text(diagnosis, {.tensors = given.tensors, .published = given.published});
}

void add_description(CLI::App& command, Given& given) {
  const auto group = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group("The model");
  };
  group("--model", given.model, "a published model: llama3-8b, gpt2-xl, ...");
  group("--params", given.params, "its size, such as 7B; alone, the published model of that size");
  group("--layers", given.layers, "blocks");
  group("--hidden", given.hidden, "width of the stream between blocks");
  group("--heads", given.heads, "of attention");
  group("--kv-heads", given.kv_heads, "of keys and values, where heads share them");
  group("--ffn", given.ffn, "width of the MLP");
  group("--vocab", given.vocab, "tokens, such as 128k");
  group("--family", given.family, "llama (RMSNorm, rotary, SwiGLU; the default) or gpt (LayerNorm, GELU, dropout)");
  group("--attention", given.attention, "flash (the default) or math (every score in memory; the default on cpu)");
  group("--norm", given.norm, "of llama: fused (the default) or eager (written out, as in many programs)");
  command.add_flag("--tied", given.tied, "the head's weight is the embedding's")->group("The model");
}

void add_training(CLI::App& command, Given& given) {
  const auto group = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group("The training");
  };
  group("--seq", given.seq, "tokens in a sequence; 8k is 8192");
  group("--batch", given.batch, "sequences in a step, on one device (1); with two tapes, the batch to look at");
  command.add_option("--batches", given.batches, "of two tapes, where their shapes do not tell")
      ->group("The training")
      ->expected(2);
  group("--dtype", given.dtype,
        "bf16 (the default), fp16 or fp32; with 16 bits, a float32 copy of the weights is counted");
  command.add_flag("--pure", given.pure, "everything in that type, and no float32 copy")->group("The training");
  group("--optimizer", given.optimizer,
        "adamw (the default), adam, adamw8bit, lion, momentum, sgd; with a tape, adds state it lacks");
}

void add_device(CLI::App& command, Given& given) {
  const auto group = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group("The device");
  };
  group("--memory", given.memory, "how much it has, such as 80GiB");
  group("--device", given.device, "its name: h100, a100-80gb, rtx4090, ..., cpu");
  group("--reserve", given.reserve, "to leave alone: 2GiB, 5%; default 5% of a GPU, 0 with a tape");
  group("--oom", given.oom, "the text of an out-of-memory error: a file, or - for standard input");
}

}  // namespace

void add_doctor(CLI::App& program, int& exit_code) {
  auto* command =
      program.add_subcommand("doctor", "From an out-of-memory error to a policy, with every figure explained.");
  auto given = std::make_shared<Given>();
  command->add_option("tapes", given->tapes,
                      "a tape (retrace trace, session.save_tape()), or two of other batch sizes");
  add_description(*command, *given);
  add_training(*command, *given);
  add_device(*command, *given);
  command->add_flag("--tensors", given->tensors, "list every tensor of a block");
  command->add_flag("--published", given->published, "set the figures beside published ones");
  command->add_flag("--json", given->json, "for scripts: bytes as whole numbers");
  command->footer(kExamples);
  command->callback([given, &exit_code] {
    std::cout << answer(*given);
    exit_code = kOk;
  });
}

}  // namespace retrace::cli
