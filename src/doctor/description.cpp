// From what a person said to a model: names looked up, gaps filled, contradictions refused.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include <retrace/errors.h>

#include "doctor/model.h"
#include "policy/near_names.h"

namespace retrace::doctor {
namespace {

constexpr double kSameCount = 0.02;   // a name such as "7B" is rounded: nothing to say
constexpr double kOtherModel = 0.25;  // beyond it, one of the numbers is wrong
constexpr int64_t kMostLayers = 2000;
constexpr double kNearestPublished = 0.15;

[[noreturn]] void refuse(const std::string& what) { throw UsageError("[doctor] " + what); }

std::string billions(int64_t count) {
  const double n = static_cast<double>(count);
  if (n >= 1e9) return fmt::format("{:.2f} B", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f} M", n / 1e6);
  return std::to_string(count);
}

double apart(int64_t a, int64_t b) { return std::abs(static_cast<double>(a) / static_cast<double>(b) - 1); }

std::vector<std::string> names_of(const std::vector<Model>& models) {
  std::vector<std::string> names;
  for (const Model& model : models) names.push_back(model.name);
  return names;
}

Family family_of(const std::string& name) {
  return position_of(name, {"llama", "gpt"}, "family of blocks") == 0 ? Family::llama : Family::gpt;
}

Dtype dtype_of(const std::string& name) {
  static const std::vector<std::string> names = {"bf16", "bfloat16", "fp16",    "float16",
                                                 "half", "fp32",     "float32", "float"};
  const size_t i = position_of(name, names, "type");
  return i >= 5 ? Dtype{"fp32", 4} : Dtype{i < 2 ? "bf16" : "fp16", 2};
}

// The published model of about that size.
const Model& nearest_published(const Description& said) {
  const Model* best = nullptr;
  for (const Model& model : published_models()) {
    if (said.family && model.family != family_of(*said.family)) continue;
    if (!best || apart(parameters(model).total, *said.params) < apart(parameters(*best).total, *said.params))
      best = &model;
  }
  if (!best || apart(parameters(*best).total, *said.params) > kNearestPublished) {
    refuse(
        fmt::format("no published model that is known here has about {} parameters, so their shape is unclear. Say "
                    "--layers and --hidden.",
                    billions(*said.params)));
  }
  return *best;
}

Model base_of(const Description& said, Completed& result) {
  if (said.model) return published_models()[position_of(*said.model, names_of(published_models()), "model")];
  if (said.layers && said.hidden) return {};
  if (said.params && !said.layers && !said.hidden) {
    const Model& model = nearest_published(said);
    result.assumed.push_back(
        fmt::format("shaped like {} ({} parameters)", model.name, billions(parameters(model).total)));
    return model;
  }
  if (said.layers || said.hidden) {
    refuse(said.layers ? "--layers alone does not tell the model's size. Say --hidden too, or --model."
                       : "--hidden alone does not tell the model's size. Say --layers too, or --model.");
  }
  refuse("nothing says which model this is. Say --model, --params, or --layers and --hidden; or give a tape.");
}

int64_t positive(const char* option, int64_t value) {
  if (value <= 0)
    refuse(fmt::format("--{} {}: a model has at least one, so there is nothing to compute.", option, value));
  return value;
}

// What was said, or what the published model has, or a guess that is told.
void fill(const char* option, const std::optional<int64_t>& said, int64_t& value, int64_t guess, const char* why,
          Completed& result) {
  if (said) {
    value = positive(option, *said);
  } else if (value == 0) {
    value = guess;
    result.assumed.push_back(fmt::format("{} {}{}", option, guess, why));
  }
}

int64_t usual_ffn(Family family, int64_t hidden) {
  if (family == Family::gpt) return times(4, hidden);
  return (times(8, hidden) / 3 + 255) / 256 * 256;
}

int64_t usual_heads(int64_t hidden) {
  for (const int64_t width : {128, 64, 32, 16, 8, 4, 2}) {
    if (hidden % width == 0 && hidden >= width) return hidden / width;
  }
  return 1;
}

void fill_shape(const Description& said, Model& model, Completed& result) {
  fill("layers", said.layers, model.layers, 0, "", result);
  fill("hidden", said.hidden, model.hidden, 0, "", result);
  fill("heads", said.heads, model.heads, usual_heads(model.hidden), "", result);
  fill("kv-heads", said.kv_heads, model.kv_heads, model.heads, " (as many as heads)", result);
  const bool gpt = model.family == Family::gpt;
  fill("ffn", said.ffn, model.ffn, usual_ffn(model.family, model.hidden),
       gpt ? " (4·h)" : " (8·h/3, to a multiple of 256)", result);
  fill("vocab", said.vocab, model.vocab, gpt ? 50257 : 32000, gpt ? " (GPT-2's)" : " (Llama 2's)", result);
  if (!said.seq && !model.name.empty()) result.assumed.push_back(fmt::format("seq {}", model.seq));
  fill("seq", said.seq, model.seq, 2048, "", result);
  if (!said.batch) result.assumed.push_back("batch 1");
  model.batch = said.batch ? positive("batch", *said.batch) : 1;
}

void check_shape(const Model& model) {
  if (model.layers > kMostLayers) {
    refuse(fmt::format("--layers {}: more than {} blocks are not looked at. Is that the number of parameters?",
                       model.layers, kMostLayers));
  }
  if (model.hidden % model.heads != 0) {
    refuse(fmt::format(
        "--hidden {} is not a multiple of --heads {}, so heads would have no whole width. Change one of them.",
        model.hidden, model.heads));
  }
  if (model.heads % model.kv_heads != 0) {
    refuse(fmt::format(
        "--heads {} is not a multiple of --kv-heads {}, so heads cannot share keys evenly. Change one of them.",
        model.heads, model.kv_heads));
  }
  if (model.family == Family::gpt && model.kv_heads != model.heads) {
    refuse("blocks of the gpt family have as many --kv-heads as --heads. Leave --kv-heads out, or say --family llama.");
  }
}

void check_count(const Description& said, const Model& model, Completed& result) {
  if (!said.params) return;
  positive("params", *said.params);
  const int64_t total = parameters(model).total;
  const double difference = apart(total, *said.params);
  if (difference > kOtherModel) {
    refuse(fmt::format(
        "--params says {}, but {} layers of hidden {} with ffn {} and vocabulary {} have {}: one of the numbers "
        "is wrong. Correct it, or leave --params out.",
        billions(*said.params), model.layers, model.hidden, model.ffn, model.vocab, billions(total)));
  }
  const bool shape_was_said = said.layers || said.model;
  if (shape_was_said && difference > kSameCount) {
    result.notes.push_back(fmt::format(
        "The shape has {} parameters, {:.0f} % {} than the {} of --params. All figures are "
        "the shape's.",
        billions(total), 100 * difference, total > *said.params ? "more" : "fewer", billions(*said.params)));
  }
}

}  // namespace

Optimizer optimizer_of(const std::string& name) {
  static const std::vector<Optimizer> known = {{"adamw", 2, false}, {"adam", 2, false}, {"adamw8bit", 2, true},
                                               {"lion", 1, false},  {"sgd", 0, false},  {"momentum", 1, false}};
  std::vector<std::string> names;
  for (const Optimizer& optimizer : known) names.push_back(optimizer.name);
  return known[position_of(name, names, "optimizer")];
}

size_t position_of(const std::string& name, const std::vector<std::string>& names, const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  std::string near;
  for (const std::string& candidate : nearest_names(name, names, 3)) near += (near.empty() ? "" : ", ") + candidate;
  refuse(fmt::format("no {} is called '{}'. The nearest are {}.", what, name, near));
}

int64_t count_of(const std::string& option, const std::string& text, int64_t thousand) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  const std::string unit(after, end);
  const double k = static_cast<double>(thousand);
  const std::vector<std::pair<std::string, double>> units = {
      {"", 1},      {"k", k},         {"K", k},         {"m", k * k},
      {"M", k * k}, {"b", k * k * k}, {"B", k * k * k}, {"T", k * k * k * k}};
  const auto known = std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
  if (error != std::errc() || known == units.end() || !std::isfinite(number)) {
    refuse(fmt::format("--{} '{}' is not a number such as 32, 128k or 7B.", option, text));
  }
  const double count = std::round(number * known->second);
  if (std::abs(count) >= 0x1p53)
    refuse(fmt::format("--{} '{}' is more than can be counted exactly (2^53).", option, text));
  if (std::abs(count - number * known->second) > 1e-6 * std::abs(count)) {
    refuse(fmt::format("--{} '{}' is not a whole number.", option, text));
  }
  return static_cast<int64_t>(count);
}

Completed complete(const Description& said) {
  Completed result;
  Model model = base_of(said, result);
  if (said.family) model.family = family_of(*said.family);
  const std::string attention = said.attention.value_or(said.on_cpu ? "math" : "flash");
  model.attention = position_of(attention, {"flash", "math"}, "attention") == 0 ? Attention::flash : Attention::math;
  const std::string norm = said.norm.value_or("fused");
  model.norm = position_of(norm, {"fused", "eager"}, "norm") == 0 ? Norm::fused : Norm::eager;
  model.dtype = dtype_of(said.dtype.value_or("bf16"));
  model.optimizer = optimizer_of(said.optimizer.value_or("adamw"));
  model.pure = said.pure;
  model.float_masks = said.on_cpu;
  model.tied = model.tied || said.tied;
  fill_shape(said, model, result);
  check_shape(model);
  check_count(said, model, result);
  result.model = std::move(model);
  return result;
}

}  // namespace retrace::doctor
