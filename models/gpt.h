// The GPT block, and the language model the demo trains with it.
#pragma once

#include <cstdint>
#include <functional>

#include "models.h"

namespace models {

struct GptShape {
  int64_t batch = 4;
  int64_t length = 256;
  int64_t width = 384;
  int64_t heads = 6;
  int64_t blocks = 8;
  double dropout = 0.1;
};

// Characters in, a loss per character out: embedding, blocks, head. Its layers are the embedding and the blocks.
struct TextGpt {
  Model model;
  // What the next passes run on: int64 tokens and the tokens that follow them, both batch × length.
  std::function<void(at::Tensor tokens, at::Tensor targets)> feed;
};

TextGpt make_text_gpt(const GptShape& shape, int64_t vocabulary, uint64_t seed = 0);

}  // namespace models
