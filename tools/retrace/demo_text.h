// The text the demo learns: characters as tokens, and batches of them.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

namespace retrace::cli {

struct TextBatch {
  at::Tensor tokens;   // batch × length, int64
  at::Tensor targets;  // the same, one character on
};

class DemoText {
 public:
  // Reads the file, or the text that ships with Retrace if no path is given: beside the installed program, or in the
  // source tree the program was built from. Throws BadInput if there is none, or it has too few characters.
  DemoText(const std::string& path, int64_t length);

  int64_t vocabulary() const { return vocabulary_; }
  int64_t characters() const { return tokens_.numel(); }

  // Passages drawn at random; the same seed draws the same ones. Leaves the ambient generator alone.
  TextBatch batch(int64_t rows, uint64_t seed) const;

 private:
  int64_t length_;
  int64_t vocabulary_ = 0;
  at::Tensor tokens_;
};

}  // namespace retrace::cli
