#include "doctor/published.h"

#include <fmt/format.h>

#include "doctor/words.h"

namespace retrace::doctor {
namespace {

std::string gigabytes(double bytes) { return fmt::format("{:.2f} GB", bytes / 1e9); }
std::string gigabytes(int64_t bytes) { return gigabytes(static_cast<double>(bytes)); }

// The block the formula is about: 16-bit GPT, an MLP of 4·h, dropout in three places, every score in memory.
Model korthikanti_block(const Model& model) {
  Model gpt = model;
  gpt.family = Family::gpt;
  gpt.attention = Attention::math;
  gpt.kv_heads = gpt.heads;
  gpt.ffn = times(4, gpt.hidden);
  gpt.dtype = {"fp16", 2};
  gpt.float_masks = false;
  return gpt;
}

PublishedFigure activations_per_layer(const Diagnosis& d) {
  const Model& model = d.described.model;
  const Symbols s = model.symbols();
  const int64_t linear = evaluate("34*t*h", s), square = evaluate("5*a*s*t", s);
  const int64_t same = saved_bytes(block_table(korthikanti_block(model))), ours = saved_bytes(d.checkpointing->block());
  PublishedFigure figure;
  figure.what = "activations of one layer";
  figure.source = "Korthikanti et al. 2022: 34·s·b·h + 5·a·s²·b bytes";
  figure.published = fmt::format("{} = {} + {}", gigabytes(plus(linear, square)), gigabytes(linear), gigabytes(square));
  figure.ours = fmt::format("{}; of their block {}", gigabytes(ours), gigabytes(same));
  figure.difference = fmt::format(
      "Of their block our table has the same terms, and the statistics of two norms ({} B per token) that they leave "
      "out.",
      (same - linear - square) / s['t']);
  if (model.attention == Attention::flash) {
    figure.difference += fmt::format(" Flash attention keeps no scores: {} are gone.", gigabytes(square));
  }
  if (model.family == Family::llama) {
    const std::string shared =
        s['k'] == s['h'] ? "" : fmt::format(" keys and values of width {} instead of {},", s['k'], s['h']);
    figure.difference +=
        fmt::format(" The rest: no dropout,{} and an MLP that keeps four tensors of width {} instead of two of {}.",
                    shared, s['f'], times(4, s['h']));
  }
  return figure;
}

PublishedFigure bytes_per_parameter(const Diagnosis& d) {
  const PerWeight per = per_weight(d.described.model);
  PublishedFigure figure;
  figure.what = "weights, gradients, optimizer state";
  figure.source = "Rajbhandari et al. 2020 (ZeRO): 16 bytes per parameter";
  figure.published = gigabytes(times(16, d.params.total));
  figure.ours = gigabytes(d.states.total());
  figure.difference =
      per.total() == 16 && !d.described.model.optimizer.eight_bit
          ? fmt::format(
                "The same rule: {} weight + {} gradient + {} float32 copy + {} moments, of {} parameters counted from "
                "the "
                "shape.",
                per.weight, per.gradient, per.copy, per.moments, number_text(d.params.total))
          : fmt::format("Here it is {} weight + {} gradient + {} float32 copy + {} moments, of {} parameters.",
                        per.weight, per.gradient, per.copy, per.moments, number_text(d.params.total));
  return figure;
}

int64_t activations_of(Model model, const char* dtype, int64_t bytes, Norm norm) {
  model.dtype = {dtype, bytes};
  model.norm = norm;
  return Checkpointing(model).cost(PolicyKind::keep_all).peak_bytes();
}

PublishedFigure every_eight(const Diagnosis& d) {
  const Model& model = d.described.model;
  const PolicyCost every = d.checkpointing->cost(PolicyKind::every, 8);
  const double before = static_cast<double>(d.plain.peak_bytes()), after = static_cast<double>(every.peak_bytes());
  Model math = model;
  math.attention = Attention::math;
  PublishedFigure figure;
  figure.what = "activations, checkpointed every 8 layers";
  figure.source = "a report without a traced source (7B, 8K context): 120 GB down to 35 GB for 28 % time";
  figure.published = fmt::format("120 GB to 35 GB ({:.0f} %), +28 %", 100 * 35.0 / 120);
  figure.ours = fmt::format("{} to {} ({:.0f} %), {}", gigabytes(before), gigabytes(after), 100 * after / before,
                            extra_text(every.extra));
  figure.difference = fmt::format(
      "The absolute figures are another program's: 120 GB would be {:.0f} bytes per token, layer and hidden unit, "
      "where this "
      "block keeps {:.1f}. With norms written out it would be {} in all, in float32 too {}, with every score in memory "
      "{}. The "
      "reduction is alike: 8 of {} layers are whole at a time, {:.0f} % of the layers' bytes, and what is left beside "
      "them are "
      "the logits. The time is alike: one forward of the layers is {:.0f} % of a step's work; the last product of each "
      "segment "
      "is not repeated.",
      120e9 / static_cast<double>(times(model.layers, evaluate("t*h", model.symbols()))),
      static_cast<double>(saved_bytes(d.checkpointing->block())) /
          static_cast<double>(evaluate("t*h", model.symbols())),
      gigabytes(activations_of(model, "bf16", 2, Norm::eager)),
      gigabytes(activations_of(model, "fp32", 4, Norm::eager)), gigabytes(activations_of(math, "bf16", 2, Norm::fused)),
      model.layers, 800.0 / static_cast<double>(model.layers), 100 * d.checkpointing->forward_share());
  return figure;
}

}  // namespace

std::vector<PublishedFigure> beside_published(const Diagnosis& d) {
  std::vector<PublishedFigure> figures{activations_per_layer(d), bytes_per_parameter(d)};
  const Model& model = d.described.model;
  const bool like_the_report = model.tokens() == 8192 && model.seq == 8192 && d.params.total > 6'000'000'000 &&
                               d.params.total < 9'000'000'000 && model.layers >= 8;
  if (like_the_report) figures.push_back(every_eight(d));
  return figures;
}

std::string published_text(const Diagnosis& d) {
  std::string text = heading("Beside published figures (GB are 10^9 bytes)");
  for (const PublishedFigure& figure : beside_published(d)) {
    text += fmt::format("  {}\n", figure.what);
    text += fmt::format("    {}\n      theirs {}\n      ours   {}\n", figure.source, figure.published, figure.ours);
    text += wrapped(figure.difference, 6);
  }
  return text;
}

}  // namespace retrace::doctor
