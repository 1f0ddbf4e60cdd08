// What a run of a program showed, and whether two runs showed the same. Holds bytes, never tensors: an outcome must not
// keep alive what the run itself let go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "program.h"

namespace retrace::random {

// One thing seen at one point of the program. `content` is compared bit for bit.
struct Observation {
  int statement = 0;     // where it was seen; the number of statements for what is seen at the end
  std::string what;      // "value 7", "gradient of v2", "default generator"
  std::string metadata;  // type, sizes, strides, requires_grad, version
  std::string content;   // elements in logical order
};

struct Thrown {
  int statement = 0;
  std::string type;
  std::string message;         // first line
  bool usage_error = false;    // Retrace's own: the caller changed something
  bool not_supported = false;  // Retrace's own: LibTorch cannot do it through hooks
  bool infeasible = false;     // Retrace's own: a budget cannot be kept
};

struct Outcome {
  std::vector<Observation> observations;
  std::optional<Thrown> thrown;
  int64_t leaked_bytes = 0;    // live at the end, with everything dropped, beyond what was live at the start
  bool outside_write = false;  // something a scope read was written later outside of it (scope_watch.h)
  bool orphan_view = false;    // a scope read a view made under no_grad before it (scope_watch.h)
  int64_t peak_bytes = 0;      // at the fullest moment, beyond what was live at the start
  int64_t smallest_named = 0;  // the most that a refused budget said would be enough, beyond what was live at the start
  std::string broken_budget;   // what a step under a budget did not keep to
  int64_t body_peak_bytes = 0;                          // the same, before anything was looked at in the end
  std::vector<std::pair<int, Lateness>> silent_writes;  // statements that were silent writes, and how late they came
  bool unfair = false;  // plain autograd itself used content that had changed unnoticed; not compared
};

// Reads the memory directly: looking must not run operators, or the recorder would see them.
Observation observe(int statement, std::string what, const torch::Tensor& tensor);

enum class Verdict {
  same,
  both_raised,  // at the same statement, the same type
  refused,      // Retrace alone raised an error of its own, with good reason
  different,
};

struct Comparison {
  Verdict verdict = Verdict::same;
  std::string text;  // of the first difference
};

Comparison compare(const Outcome& plain, const Outcome& retrace);

// What Retrace saw before it raised at `statement` must be what plain saw, which went on: refused then.
Comparison compare_before(const Outcome& plain, const Outcome& retrace, int statement);

}  // namespace retrace::random
