// A transformer's block as a table of tensors: who makes each, from what, who saves it for backward, its bytes, and
// what making it again takes. This one table gives the activation bytes, what each policy keeps and rebuilds, and the
// text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/model.h"

namespace retrace::doctor {

enum class Layer { norm, attention, mlp, dropout, embedding, head };
const char* name(Layer layer);

struct Tensor {
  std::string name = {};
  Layer layer = Layer::norm;
  std::string made_by = {};            // an operator; empty: it comes from outside
  std::vector<std::string> from = {};  // tensors of the table that it reads
  std::string with = {};      // the tensor that the same operator makes first, if this is a further result of it
  std::string saved_by = {};  // the operator that saves it; empty: it is gone once it has been read
  std::string elements = {};  // a formula
  int64_t element_bytes = 0;
  std::string flops = {};  // a formula; empty: the time goes into moving bytes
  bool product = false;    // a policy of selective() keeps it
  double backward = 2;     // its backward, in its own forward's time

  // Filled in by the builders, from the formulas.
  int64_t bytes = 0;
  double work = 0;  // making it again: FLOPs, or bytes moved times the FLOPs a device could do meanwhile
};

using Table = std::vector<Tensor>;

// What a device does in the time it moves a byte, where none is named: an A100's 312 TFLOP/s to 2.039 TB/s.
inline constexpr double kUsualBalance = 312e12 / 2.039e12;

Table block_table(const Model& model, double balance = kUsualBalance);
Table embedding_table(const Model& model, double balance = kUsualBalance);
Table head_table(const Model& model, double balance = kUsualBalance);  // final norm, logits, loss

// Autograd holds these bytes of a table from forward to backward.
int64_t saved_bytes(const Table& table);

// By how much backward through the table rises above what was saved: gradients come as saved tensors go.
int64_t backward_rise_bytes(const Table& table);

double forward_work(const Table& table);
double backward_work(const Table& table);

// What is made again when only the tensors in `kept` are at hand and everything that was saved is asked for.
struct Rebuild {
  double work = 0;
  int64_t bytes = 0;                   // of what was saved and is not kept
  std::vector<std::string> made = {};  // names, in order
};
Rebuild rebuild(const Table& table, const std::vector<std::string>& kept, const std::string& also = "");

const Tensor& find(const Table& table, const std::string& name);

}  // namespace retrace::doctor
