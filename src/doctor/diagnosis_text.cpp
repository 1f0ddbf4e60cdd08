// The diagnosis of a described training, for people: the answer first, then how it comes about.

#include <fmt/format.h>

#include <retrace/budget.h>

#include "doctor/diagnosis.h"
#include "doctor/diagnosis_tables.h"
#include "doctor/published.h"
#include "doctor/words.h"
#include "report/table.h"

namespace retrace::doctor {
namespace {

using report::human_bytes;
constexpr double kBusSpeed = 25e9;  // bytes per second: what PCIe 4.0 x16 gives in practice

std::string headline(const Diagnosis& d) {
  const Model& m = d.described.model;
  return wrapped(fmt::format("{}{} parameters, {} block{}, sequence {}, batch {}, {}{}, {}, {} attention",
                             m.name.empty() ? "" : m.name + ": ", count_text(d.params.total), m.layers,
                             m.layers == 1 ? "" : "s", number_text(m.seq), number_text(m.batch), m.pure ? "pure " : "",
                             m.dtype.name, m.optimizer.name, m.attention == Attention::flash ? "flash" : "math"));
}

std::string memory_text(const Memory& memory) {
  if (memory.reserved == 0) return fmt::format("{} has {}", memory.from, human_bytes(memory.bytes));
  return fmt::format("{} has {}, {} of it to use (the rest is kept free)", memory.from, human_bytes(memory.bytes),
                     human_bytes(memory.usable()));
}

std::string verdict(const Diagnosis& d) {
  const std::string step = "A step takes " + human_bytes(d.plain_bytes());
  if (d.memory.bytes == 0)
    return wrapped(step + ". Say --memory or --device to learn whether that fits, and what to do.");
  std::string text;
  if (d.fits) {
    return wrapped(fmt::format("FITS as it is. {}; {}.", step, memory_text(d.memory)));
  }
  text = wrapped(fmt::format("DOES NOT FIT as it is. {}; {}.", step, memory_text(d.memory)));
  if (d.advised) {
    const int64_t peak = plus(d.states.total(), d.advised->peak_bytes());
    return text + wrapped(fmt::format("FITS WITH CHECKPOINTING: {}. Predicted peak {}, about {} time.", d.advised->name,
                                      human_bytes(peak), extra_text(d.advised->extra)));
  }
  const PolicyCost leanest = d.checkpointing->leanest();
  if (d.states.total() > d.memory.usable()) {
    return text + wrapped(fmt::format("CHECKPOINTING ALONE CANNOT DO IT: weights, gradients and optimizer state are {} "
                                      "before the first activation.",
                                      human_bytes(d.states.total())));
  }
  return text +
         wrapped(fmt::format("CHECKPOINTING ALONE CANNOT DO IT: the leanest policy ({}) still takes {}: {} beside "
                             "weights, gradients and optimizer state of {}.",
                             leanest.name, human_bytes(plus(d.states.total(), leanest.peak_bytes())),
                             human_bytes(leanest.peak_bytes()), human_bytes(d.states.total())));
}

std::string code_lines(const std::string& code) {
  std::string text = "  ";
  for (const char c : code) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return text + "\n";
}

std::string why(const Diagnosis& d) {
  const PolicyRow* faster = nullptr;
  for (const PolicyRow& row : d.policies) {
    if (row.cost.extra < d.advised->extra && (!faster || row.peak_bytes < faster->peak_bytes)) faster = &row;
  }
  std::string text = fmt::format("Why this one: of the policies that fit it repeats the least work.");
  if (faster) {
    text += fmt::format(" The leanest one listed below that would be faster ({}, {}) takes {}.", faster->cost.name,
                        extra_text(faster->cost.extra), human_bytes(faster->peak_bytes));
  }
  return wrapped(text);
}

std::string where_it_runs(const Diagnosis& d, const PolicyCost& policy) {
  if (d.device.name == "cpu") return "";
  if (policy.kind == PolicyKind::products) {
    return wrapped(
        "Retrace runs on the CPU today. On a GPU the same is torch.utils.checkpoint with a selective policy "
        "(create_selective_checkpoint_contexts), in Python.");
  }
  return wrapped(
      "Retrace runs on the CPU today. On a GPU the same is torch.utils.checkpoint around the same pieces, in "
      "Python.");
}

std::string advice(const Diagnosis& d) {
  if (d.fits || !d.advised) return "";
  std::string text = heading("To paste") + code_lines(code(*d.advised, d.described.model));
  text += "or say only the budget, and let the planner choose what to keep (usually faster):\n";
  text +=
      code_lines(fmt::format("retrace::Session session(retrace::budget(\"{}\"));   // session.step() around each step",
                             retrace::budget(d.memory.usable() >> 20 << 20).text()));
  text += where_it_runs(d, *d.advised) + why(d);
  if (d.chunked) {
    text += wrapped(
        fmt::format("Faster still: logits and loss take {} at the turn to backward. In {} chunks of tokens, each a "
                    "checkpoint, it fits with less: {}, {} in all.",
                    human_bytes(plus(d.checkpointing->head_saved_bytes(), d.checkpointing->loss_gradient_bytes())),
                    kLossChunks, d.chunked->policy.name, extra_text(d.chunked->policy.extra)));
  }
  return text;
}

std::vector<std::string> option_cells(const Option& o) {
  std::string more;
  if (o.host_bytes() > 0) {
    more = fmt::format("{} in host memory; {} moved per step, {} at 25 GB/s", human_bytes(o.host_bytes()),
                       human_bytes(o.moved_bytes()),
                       report::human_seconds(static_cast<double>(o.moved_bytes()) / kBusSpeed));
  }
  return {o.means.text(), o.policy.name, human_bytes(o.device_bytes()), extra_text(o.policy.extra), more};
}

std::string smallest_text(const Diagnosis& d) {
  if (d.fits || d.advised || d.memory.bytes == 0) return "";
  std::string text = heading("The smallest combinations that fit");
  const auto add = [&](const char* who, const std::optional<Option>& option) {
    if (!option) return;
    const auto cells = option_cells(*option);
    text += fmt::format("  {:<26}{}\n", who, cells[0]);
    text += fmt::format("  {:<26}{} on the device; {}, extra time {}\n", "", cells[2], cells[1], cells[3]);
    if (!cells[4].empty()) text += fmt::format("  {:<26}{}\n", "", cells[4]);
  };
  add("one device, all weights", d.smallest.all_weights);
  add("one device, most frozen", d.smallest.frozen);
  add("several devices", d.smallest.several);
  const auto& best = d.smallest.first();
  if (!best) text += wrapped("None of the means below is enough, alone or together.", 2);
  if (best && d.smallest_reach) {
    text += wrapped(fmt::format("The first reaches batch {} at this sequence, or sequence {} at this batch.",
                                number_text(d.smallest_reach->batch), number_text(d.smallest_reach->seq)));
    if (best->policy.kind != PolicyKind::keep_all) {
      text += "Its checkpointing, to paste:\n" + code_lines(code(best->policy, d.described.model)) +
              where_it_runs(d, best->policy);
    }
  }
  return text;
}

std::string reach_text(const Diagnosis& d) {
  if (d.memory.bytes == 0 || (d.reach.batch == 0 && d.reach.seq == 0)) return "";
  const std::string batch = d.reach.batch == 0 ? "no batch" : "batch " + number_text(d.reach.batch);
  const std::string seq = d.reach.seq == 0 ? "no sequence" : "sequence " + number_text(d.reach.seq);
  return wrapped(fmt::format("With checkpointing, {} fits at this sequence, and {} at this batch.", batch, seq));
}

std::string oom_text(const Diagnosis& d) {
  if (!d.oom) return "";
  std::string text;
  for (const std::string& sentence : explain(*d.oom)) text += wrapped(sentence);
  if (const auto least = d.oom->at_least_bytes(); least && *least > d.plain_bytes()) {
    text +=
        wrapped(fmt::format("The message shows that the step needs at least {}, the description below predicts {}: "
                            "something else lives on the device, or the description is not what ran (see --norm, "
                            "--attention).",
                            human_bytes(*least), human_bytes(d.plain_bytes())));
  }
  return text + "\n";
}

std::string remarks(const Diagnosis& d) {
  std::string text;
  std::string assumed;
  for (const std::string& item : d.described.assumed) assumed += (assumed.empty() ? "" : "; ") + item;
  if (!assumed.empty()) text += wrapped("Not said, so assumed: " + assumed + ".");
  for (const std::string& note : d.described.notes) text += wrapped(note);
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string to_text(const Diagnosis& d, const TextOptions& options) {
  return headline(d) + "\n" + oom_text(d) + verdict(d) + reach_text(d) + advice(d) + smallest_text(d) +
         memory_table(d) + policy_table(d) + means_table(d) + (options.tensors ? tensor_table(d) : "") +
         (options.published ? published_text(d) : "") + remarks(d);
}

}  // namespace retrace::doctor
