#include "doctor/model.h"

#include <array>

namespace retrace::doctor {
namespace {

struct Shape {
  const char* name;
  Family family;
  int64_t layers, hidden, heads, kv_heads, ffn, vocab;
  bool tied;
  int64_t context;
};

// As published: "Language Models are Unsupervised Multitask Learners" (GPT-2) and its released configurations;
// "Language Models are Few-Shot Learners" (GPT-3); "LLaMA", "Llama 2" and "The Llama 3 Herd of Models" with their
// released configurations. GPT-3 had 2,048 positions.
constexpr std::array<Shape, 14> kShapes{{
    {"gpt2", Family::gpt, 12, 768, 12, 12, 3072, 50257, true, 1024},
    {"gpt2-medium", Family::gpt, 24, 1024, 16, 16, 4096, 50257, true, 1024},
    {"gpt2-large", Family::gpt, 36, 1280, 20, 20, 5120, 50257, true, 1024},
    {"llama3.2-1b", Family::llama, 16, 2048, 32, 8, 8192, 128256, true, 8192},
    {"gpt2-xl", Family::gpt, 48, 1600, 25, 25, 6400, 50257, true, 1024},
    {"llama3.2-3b", Family::llama, 28, 3072, 24, 8, 8192, 128256, true, 8192},
    {"llama2-7b", Family::llama, 32, 4096, 32, 32, 11008, 32000, false, 4096},
    {"llama3-8b", Family::llama, 32, 4096, 32, 8, 14336, 128256, false, 8192},
    {"llama2-13b", Family::llama, 40, 5120, 40, 40, 13824, 32000, false, 4096},
    {"llama1-33b", Family::llama, 60, 6656, 52, 52, 17920, 32000, false, 2048},
    {"llama2-70b", Family::llama, 80, 8192, 64, 8, 28672, 32000, false, 4096},
    {"llama3-70b", Family::llama, 80, 8192, 64, 8, 28672, 128256, false, 8192},
    {"gpt3-175b", Family::gpt, 96, 12288, 96, 96, 49152, 50257, true, 2048},
    {"llama3-405b", Family::llama, 126, 16384, 128, 8, 53248, 128256, false, 8192},
}};

Model model_of(const Shape& shape) {
  Model model;
  model.name = shape.name;
  model.family = shape.family;
  model.layers = shape.layers;
  model.hidden = shape.hidden;
  model.heads = shape.heads;
  model.kv_heads = shape.kv_heads;
  model.ffn = shape.ffn;
  model.vocab = shape.vocab;
  model.tied = shape.tied;
  model.seq = shape.context;
  model.batch = 1;
  return model;
}

Parameters llama_parameters(const Model& model, const Symbols& symbols) {
  const auto count = [&](const char* formula) { return evaluate(formula, symbols); };
  Parameters p;
  p.matrices_block = plus(plus(count("2*h*h"), count("2*h*k")), count("3*h*f"));  // q and o; k and v; gate, up, down
  p.block = plus(p.matrices_block, count("2*h"));
  p.final_norm = count("h");
  p.embedding = count("V*h");
  p.head = model.tied ? 0 : count("V*h");
  return p;
}

Parameters gpt_parameters(const Model& model, const Symbols& symbols) {
  const auto count = [&](const char* formula) { return evaluate(formula, symbols); };
  Parameters p;
  p.matrices_block = plus(count("4*h*h"), count("2*h*f"));           // qkv and out; up and down
  p.block = plus(p.matrices_block, plus(count("9*h"), count("f")));  // biases 3h + h + f + h, two norms of 2h
  p.final_norm = count("2*h");
  p.embedding = plus(count("V*h"), count("s*h"));
  p.head = model.tied ? 0 : plus(count("V*h"), count("V"));
  return p;
}

}  // namespace

Symbols Model::symbols() const {
  Symbols symbols;
  symbols.set('b', batch);
  symbols.set('s', seq);
  symbols.set('t', tokens());
  symbols.set('h', hidden);
  symbols.set('a', heads);
  symbols.set('k', kv_width());
  symbols.set('f', ffn);
  symbols.set('V', vocab);
  return symbols;
}

Parameters parameters(const Model& model) {
  const Symbols symbols = model.symbols();
  Parameters p = model.family == Family::llama ? llama_parameters(model, symbols) : gpt_parameters(model, symbols);
  p.total = plus(plus(times(p.block, model.layers), p.final_norm), plus(p.embedding, p.head));
  return p;
}

const std::vector<Model>& published_models() {
  static const std::vector<Model> models = [] {
    std::vector<Model> list;
    for (const Shape& shape : kShapes) list.push_back(model_of(shape));
    return list;
  }();
  return models;
}

}  // namespace retrace::doctor
