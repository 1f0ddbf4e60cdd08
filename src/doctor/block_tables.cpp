// The tables themselves: what a Llama block and a GPT block make and save, and what comes before and after the blocks.
#include <algorithm>

#include "doctor/block.h"

namespace retrace::doctor {
namespace {

constexpr double kFlashBackward = 2.5;  // five products instead of four: the scores are computed once more

// Fills in bytes and work, once all tensors stand in the table.
Table finished(Table table, const Model& model, double balance) {
  const Symbols symbols = model.symbols();
  for (Tensor& tensor : table) tensor.bytes = times(evaluate(tensor.elements, symbols), tensor.element_bytes);
  for (Tensor& tensor : table) {
    if (tensor.made_by.empty() || !tensor.with.empty()) continue;
    double moved = static_cast<double>(tensor.bytes);
    for (const std::string& from : tensor.from) moved += static_cast<double>(find(table, from).bytes);
    tensor.work = std::max(moved * balance, tensor.flops.empty() ? 0 : evaluate_real(tensor.flops, symbols));
  }
  return table;
}

Tensor input(const char* name, Layer layer, const char* saved_by, int64_t bytes) {
  return {.name = name, .layer = layer, .saved_by = saved_by, .elements = "t*h", .element_bytes = bytes};
}

Tensor product(const char* name, Layer layer, const char* made_by, std::vector<std::string> from, const char* saved_by,
               const char* elements, int64_t bytes, const char* flops) {
  return {.name = name,
          .layer = layer,
          .made_by = made_by,
          .from = std::move(from),
          .saved_by = saved_by,
          .elements = elements,
          .element_bytes = bytes,
          .flops = flops,
          .product = true};
}

Tensor plain(const char* name, Layer layer, const char* made_by, std::vector<std::string> from, const char* saved_by,
             const char* elements, int64_t bytes) {
  return {.name = name,
          .layer = layer,
          .made_by = made_by,
          .from = std::move(from),
          .saved_by = saved_by,
          .elements = elements,
          .element_bytes = bytes};
}

Tensor further(const char* name, Layer layer, const char* with, const char* made_by, const char* elements,
               int64_t bytes) {
  return {.name = name,
          .layer = layer,
          .made_by = made_by,
          .with = with,
          .saved_by = made_by,
          .elements = elements,
          .element_bytes = bytes};
}

// Who saves what a norm is given: written out, it saves its float32 copy instead.
const char* llama_norm_saves(const Model& model) {
  if (model.norm == Norm::fused) return "rms_norm";
  return model.dtype.bytes == 4 ? "pow, mul" : "";
}

void add_rms_norm(Table& table, const Model& model, const std::string& name, const std::string& from) {
  const int64_t e = model.dtype.bytes;
  const std::string numbers = name + ".rstd";
  if (model.norm == Norm::fused) {
    table.push_back(plain(name.c_str(), Layer::norm, "rms_norm", {from}, "linear", "t*h", e));
    table.push_back(further(numbers.c_str(), Layer::norm, name.c_str(), "rms_norm", "t", 4));
    return;
  }
  // In float32 whatever the weights' type; from float32 the cast is no copy, and what is saved is the input itself.
  std::string wide = from;
  if (e != 4) {
    wide = name + ".float";
    table.push_back(plain(wide.c_str(), Layer::norm, "to", {from}, "pow, mul", "t*h", 4));
  }
  table.push_back(plain((name + ".square").c_str(), Layer::norm, "pow", {wide}, "", "t*h", 4));
  table.push_back(plain(numbers.c_str(), Layer::norm, "rsqrt", {name + ".square"}, "rsqrt, mul", "t", 4));
  table.push_back(plain((name + ".unit").c_str(), Layer::norm, "mul", {wide, numbers}, "mul", "t*h", e));
  table.push_back(plain(name.c_str(), Layer::norm, "mul", {name + ".unit"}, "linear", "t*h", e));
}

void add_llama_attention(Table& table, const Model& model) {
  const int64_t e = model.dtype.bytes;
  constexpr auto kind = Layer::attention;
  table.push_back(product("q_proj", kind, "linear", {"norm1"}, "", "t*h", e, "2*t*h*h"));
  table.push_back(product("k_proj", kind, "linear", {"norm1"}, "", "t*k", e, "2*t*h*k"));
  const bool flash = model.attention == Attention::flash;
  const bool shared = model.kv_heads != model.heads;
  table.push_back(product("v", kind, "linear", {"norm1"}, flash ? "attention" : "", "t*k", e, "2*t*h*k"));
  table.push_back(plain("q", kind, "rotary", {"q_proj"}, flash ? "attention" : "matmul", "t*h", e));
  table.push_back(
      plain("k", kind, "rotary", {"k_proj"}, flash || !shared ? (flash ? "attention" : "matmul") : "", "t*k", e));
  if (flash) {
    table.push_back(product("context", kind, "attention", {"q", "k", "v"}, "attention, linear", "t*h", e, "2*t*s*h"));
    table.back().backward = kFlashBackward;
    table.push_back(further("logsumexp", kind, "context", "attention", "t*a", 4));
  } else {
    const std::string keys = shared ? "k.repeated" : "k";
    if (shared) table.push_back(plain("k.repeated", kind, "repeat", {"k"}, "matmul", "t*h", e));
    table.push_back(plain("v.heads", kind, shared ? "repeat" : "copy", {"v"}, "matmul", "t*h", e));
    table.push_back(product("scores", kind, "matmul", {"q", keys}, "", "a*s*t", e, "2*t*s*h"));
    table.push_back(plain("masked", kind, "masked_fill", {"scores"}, "", "a*s*t", e));
    table.push_back(plain("softmax", kind, "softmax", {"masked"}, "softmax, matmul", "a*s*t", e));
    table.push_back(product("values", kind, "matmul", {"softmax", "v.heads"}, "", "t*h", e, "2*t*s*h"));
    table.push_back(plain("context", kind, "copy", {"values"}, "linear", "t*h", e));
  }
  table.push_back(product("o", kind, "linear", {"context"}, "", "t*h", e, "2*t*h*h"));
}

Table llama_block(const Model& model) {
  const int64_t e = model.dtype.bytes;
  const char* const norm = llama_norm_saves(model);
  Table table{input("x", Layer::norm, norm, e)};
  add_rms_norm(table, model, "norm1", "x");
  add_llama_attention(table, model);
  table.push_back(plain("x2", Layer::norm, "add", {"x", "o"}, norm, "t*h", e));
  add_rms_norm(table, model, "norm2", "x2");
  table.push_back(product("gate", Layer::mlp, "linear", {"norm2"}, "silu", "t*f", e, "2*t*h*f"));
  table.push_back(product("up", Layer::mlp, "linear", {"norm2"}, "mul", "t*f", e, "2*t*h*f"));
  table.push_back(plain("silu", Layer::mlp, "silu", {"gate"}, "mul", "t*f", e));
  table.push_back(plain("gated", Layer::mlp, "mul", {"silu", "up"}, "linear", "t*f", e));
  table.push_back(product("down", Layer::mlp, "linear", {"gated"}, "", "t*h", e, "2*t*h*f"));
  table.push_back(plain("next", Layer::mlp, "add", {"x2", "down"}, "", "t*h", e));
  return table;
}

void add_layer_norm(Table& table, const Model& model, const char* name, const char* from) {
  table.push_back(plain(name, Layer::norm, "layer_norm", {from}, "linear", "t*h", model.dtype.bytes));
  table.push_back(further((std::string(name) + ".numbers").c_str(), Layer::norm, name, "layer_norm", "2*t", 4));
}

// Dropout saves its mask; what it makes is saved only by whoever reads it.
void add_dropout(Table& table, const Model& model, const std::string& name, const char* from, const char* saved_by,
                 const char* elements) {
  table.push_back(plain(name.c_str(), Layer::dropout, "dropout", {from}, saved_by, elements, model.dtype.bytes));
  table.push_back(further((name + ".mask").c_str(), Layer::dropout, name.c_str(), "dropout", elements,
                          model.float_masks ? model.dtype.bytes : 1));
}

void add_gpt_attention(Table& table, const Model& model) {
  const int64_t e = model.dtype.bytes;
  constexpr auto kind = Layer::attention;
  if (model.attention == Attention::flash) {
    table.push_back(product("qkv", kind, "linear", {"norm1"}, "attention", "3*t*h", e, "6*t*h*h"));
    table.push_back(product("context", kind, "attention", {"qkv"}, "attention, linear", "t*h", e, "2*t*s*h"));
    table.back().backward = kFlashBackward;
    table.push_back(further("logsumexp", kind, "context", "attention", "t*a", 4));
    return;
  }
  table.push_back(product("qkv", kind, "linear", {"norm1"}, "", "3*t*h", e, "6*t*h*h"));
  for (const char* part : {"q", "k", "v"}) table.push_back(plain(part, kind, "copy", {"qkv"}, "matmul", "t*h", e));
  table.push_back(product("scores", kind, "matmul", {"q", "k"}, "", "a*s*t", e, "2*t*s*h"));
  table.push_back(plain("scaled", kind, "mul", {"scores"}, "", "a*s*t", e));
  table.push_back(plain("masked", kind, "masked_fill", {"scaled"}, "", "a*s*t", e));
  table.push_back(plain("softmax", kind, "softmax", {"masked"}, "softmax", "a*s*t", e));
  add_dropout(table, model, "softmax.dropped", "softmax", "matmul", "a*s*t");
  table.push_back(product("values", kind, "matmul", {"softmax.dropped", "v"}, "", "t*h", e, "2*t*s*h"));
  table.push_back(plain("context", kind, "copy", {"values"}, "linear", "t*h", e));
}

Table gpt_block(const Model& model) {
  const int64_t e = model.dtype.bytes;
  Table table{input("x", Layer::norm, "layer_norm", e)};
  add_layer_norm(table, model, "norm1", "x");
  add_gpt_attention(table, model);
  table.push_back(product("out", Layer::attention, "linear", {"context"}, "", "t*h", e, "2*t*h*h"));
  add_dropout(table, model, "out.dropped", "out", "", "t*h");
  table.push_back(plain("x2", Layer::norm, "add", {"x", "out.dropped"}, "layer_norm", "t*h", e));
  add_layer_norm(table, model, "norm2", "x2");
  table.push_back(product("up", Layer::mlp, "linear", {"norm2"}, "gelu", "t*f", e, "2*t*h*f"));
  table.push_back(plain("gelu", Layer::mlp, "gelu", {"up"}, "linear", "t*f", e));
  table.push_back(product("down", Layer::mlp, "linear", {"gelu"}, "", "t*h", e, "2*t*h*f"));
  add_dropout(table, model, "down.dropped", "down", "", "t*h");
  table.push_back(plain("next", Layer::mlp, "add", {"x2", "down.dropped"}, "", "t*h", e));
  return table;
}

}  // namespace

Table block_table(const Model& model, double balance) {
  return finished(model.family == Family::llama ? llama_block(model) : gpt_block(model), model, balance);
}

Table embedding_table(const Model& model, double balance) {
  const int64_t e = model.dtype.bytes;
  Table table{plain("embedded", Layer::embedding, "embedding", {}, "", "t*h", e)};
  if (model.family == Family::gpt) {
    table.push_back(plain("placed", Layer::embedding, "add", {"embedded"}, "", "t*h", e));
    add_dropout(table, model, "embedding.dropped", "placed", "", "t*h");
    table.back().layer = table[table.size() - 2].layer = Layer::embedding;
  }
  return finished(std::move(table), model, balance);
}

Table head_table(const Model& model, double balance) {
  const int64_t e = model.dtype.bytes;
  const bool gpt = model.family == Family::gpt;
  Table table{input("x", Layer::norm, gpt ? "layer_norm" : llama_norm_saves(model), e)};
  gpt ? add_layer_norm(table, model, "normed", "x") : add_rms_norm(table, model, "normed", "x");
  for (Tensor& tensor : table) tensor.layer = Layer::head;
  table.push_back(product("logits", Layer::head, "linear", {"normed"}, "", "t*V", e, "2*t*h*V"));
  table.push_back(plain("log_softmax", Layer::head, "log_softmax", {"logits"}, "log_softmax, nll_loss", "t*V", 4));
  return finished(std::move(table), model, balance);
}

}  // namespace retrace::doctor
