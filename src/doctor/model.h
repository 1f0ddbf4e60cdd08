// A transformer and how it is trained: everything the arithmetic needs, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/formula.h"

namespace retrace::doctor {

enum class Family {
  llama,  // RMSNorm, rotary positions, grouped keys and values, SwiGLU, no biases, no dropout
  gpt,    // LayerNorm, learned positions, GELU, biases, dropout: the block of models/gpt.cpp
};
enum class Attention {
  flash,  // one kernel that keeps no scores and computes them again in backward
  math,   // products and a softmax, every score in memory
};
enum class Norm {
  fused,  // one kernel, that keeps its input and a number per token
  eager,  // written out, as in many Llama programs: square, mean, rsqrt, two multiplications
};

struct Dtype {
  std::string name = "bf16";
  int64_t bytes = 2;
};

struct Optimizer {
  std::string name = "adamw";
  int64_t moments = 2;     // numbers per weight that it remembers
  bool eight_bit = false;  // one byte each, and a scale per 256 of them
};

struct Model {
  std::string name = {};  // of a published model, or empty
  Family family = Family::llama;
  Attention attention = Attention::flash;
  Norm norm = Norm::fused;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
  bool tied = false;  // the head's weight is the embedding's
  int64_t seq = 0, batch = 0;
  Dtype dtype = {};
  bool pure = false;  // state in the weights' own type, and no float32 copy of the weights
  Optimizer optimizer = {};
  // Dropout's mask: a byte per element on a GPU; on the CPU LibTorch keeps it in the tensor's own type.
  bool float_masks = false;

  int64_t kv_width() const { return hidden / heads * kv_heads; }
  int64_t tokens() const { return times(batch, seq); }
  Symbols symbols() const;
};

struct Parameters {
  int64_t block = 0;  // of one
  int64_t embedding = 0, head = 0, final_norm = 0;
  int64_t total = 0;
  int64_t matrices_block = 0;  // of one block, without norms and biases
};
Parameters parameters(const Model& model);

// What a person said; what is missing is filled in.
struct Description {
  std::optional<std::string> model = {};  // a published one
  std::optional<int64_t> params = {};
  std::optional<int64_t> layers = {}, hidden = {}, heads = {}, kv_heads = {}, ffn = {}, vocab = {}, seq = {},
                         batch = {};
  std::optional<std::string> family = {}, attention = {}, norm = {}, dtype = {}, optimizer = {};
  bool tied = false, pure = false;
  bool on_cpu = false;
};

struct Completed {
  Model model = {};
  std::vector<std::string> assumed = {};  // "heads 32 (hidden / 128)"
  std::vector<std::string> notes = {};    // whole sentences: what does not agree, and what was done about it
};

// Throws UsageError for what cannot be: one line, with the near names where a name is not known.
Completed complete(const Description& description);

Optimizer optimizer_of(const std::string& name);  // throws UsageError that suggests the near names

// Published models, by size.
const std::vector<Model>& published_models();

// Throws UsageError unless `name` is one of `names`; the message suggests the near ones. `what`: "device".
size_t position_of(const std::string& name, const std::vector<std::string>& names, const std::string& what);

// "7B", "128k", "1.5M", "8192": thousands, millions, milliards. Throws UsageError. `thousand`: what "k" stands for.
int64_t count_of(const std::string& option, const std::string& text, int64_t thousand = 1000);

}  // namespace retrace::doctor
