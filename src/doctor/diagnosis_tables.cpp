#include "doctor/diagnosis_tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "doctor/words.h"
#include "report/table.h"

namespace retrace::doctor {
namespace {

using report::human_bytes;
using Rows = std::vector<std::vector<std::string>>;

// "2*t" is 2 and "t".
std::pair<int64_t, std::string> number_and_symbols(const std::string& formula) {
  const size_t star = formula.find('*');
  if (formula[0] < '0' || formula[0] > '9' || star == std::string::npos) return {1, formula};
  return {std::stoll(formula.substr(0, star)), formula.substr(star + 1)};
}

struct SameSymbols {
  const std::string& symbols;
  bool operator()(const std::pair<std::string, int64_t>& term) const { return term.first == symbols; }
};

// "(2·t·h + t·k) × 2 B + t × 4 B" of the saved tensors of one kind of layer.
std::string formula_of(const Table& table, Layer layer) {
  std::map<int64_t, std::vector<std::pair<std::string, int64_t>>, std::greater<>> by_size;
  for (const Tensor& tensor : table) {
    if (tensor.layer != layer || tensor.saved_by.empty()) continue;
    const auto [number, symbols] = number_and_symbols(tensor.elements);
    auto& terms = by_size[tensor.element_bytes];
    const auto same = std::find_if(terms.begin(), terms.end(), SameSymbols{symbols});
    same == terms.end() ? void(terms.emplace_back(symbols, number)) : void(same->second += number);
  }
  std::string text;
  for (const auto& [bytes, terms] : by_size) {
    std::string sum;
    for (const auto& [elements, count] : terms) {
      sum += fmt::format("{}{}{}", sum.empty() ? "" : " + ", count > 1 ? std::to_string(count) + "·" : "",
                         pretty(elements));
    }
    text += fmt::format("{}{} × {} B", text.empty() ? "" : " + ", terms.size() > 1 ? "(" + sum + ")" : sum, bytes);
  }
  return text;
}

int64_t saved_in(const Table& table, Layer layer) {
  int64_t bytes = 0;
  for (const Tensor& tensor : table) bytes += tensor.layer == layer && !tensor.saved_by.empty() ? tensor.bytes : 0;
  return bytes;
}

std::string optimizer_formula(const Model& m) {
  const PerWeight per = per_weight(m);
  std::string text = m.optimizer.eight_bit ? fmt::format("{} moments of 1 B and a scale per 256", m.optimizer.moments)
                     : m.optimizer.moments > 0
                         ? fmt::format("{} moments of {} B", m.optimizer.moments, per.moments / m.optimizer.moments)
                         : "none";
  if (per.copy > 0) text = fmt::format("P × {} B: float32 copy {} B, {}", per.copy + per.moments, per.copy, text);
  return per.copy > 0 || per.moments == 0 ? text : fmt::format("P × {} B: {}", per.moments, text);
}

}  // namespace

std::string memory_table(const Diagnosis& d) {
  const Model& m = d.described.model;
  const Checkpointing& c = *d.checkpointing;
  const PerWeight per = per_weight(m);
  const int64_t block = saved_bytes(c.block());
  Rows rows;
  rows.push_back({"weights", human_bytes(d.states.weights), fmt::format("P × {} B", per.weight)});
  rows.push_back({"gradients", human_bytes(d.states.gradients), fmt::format("P × {} B", per.gradient)});
  rows.push_back({"optimizer state", human_bytes(d.states.optimizer), optimizer_formula(m)});
  rows.push_back({"activations of the blocks", human_bytes(times(block, m.layers)),
                  fmt::format("{} × {}, of which", m.layers, human_bytes(block))});
  for (const Layer layer : {Layer::norm, Layer::attention, Layer::mlp, Layer::dropout}) {
    const int64_t bytes = saved_in(c.block(), layer);
    if (bytes > 0) {
      rows.push_back({std::string("  ") + name(layer), human_bytes(times(bytes, m.layers)),
                      fmt::format("L × ({})", formula_of(c.block(), layer))});
    }
  }
  if (const int64_t bytes = saved_bytes(c.embedding()); bytes > 0) {
    rows.push_back({"embedding", human_bytes(bytes), formula_of(c.embedding(), Layer::embedding)});
  }
  rows.push_back({"logits and loss", human_bytes(saved_bytes(c.head())), formula_of(c.head(), Layer::head)});
  if (d.plain.loss_bytes >= d.plain.block_bytes) {
    rows.push_back(
        {"gradients of the loss", human_bytes(c.loss_gradient_bytes()), "2·t·V × 4 B, at the turn to backward"});
  } else {
    rows.back() = {"gradients in a block", human_bytes(c.working_bytes()),
                   "less what its backward has let go of by then"};
  }
  rows.push_back({"all at once", human_bytes(d.plain_bytes()), ""});
  const Symbols s = m.symbols();
  return heading("Where the memory goes") + columns(rows, "lrl", 2) +
         wrapped(fmt::format("L={} h={} a={} k={} f={} V={} b={} s={} t=b·s={} P={}", m.layers, s['h'], s['a'], s['k'],
                             s['f'], s['V'], s['b'], s['s'], s['t'], number_text(d.params.total)),
                 2);
}

std::string policy_table(const Diagnosis& d) {
  const bool known = d.memory.bytes > 0;
  Rows rows{{"policy", "held", "peak", "extra time", known ? "fits" : "", known ? "batch up to" : "",
             known ? "sequence up to" : ""}};
  for (const PolicyRow& row : d.policies) {
    const auto reached = [&](int64_t most) { return !known ? "" : most == 0 ? "-" : number_text(most); };
    rows.push_back({row.cost.name, human_bytes(row.cost.kept_bytes), human_bytes(row.peak_bytes),
                    extra_text(row.cost.extra),
                    !known     ? ""
                    : row.fits ? "yes"
                               : "no",
                    reached(row.reach.batch), reached(row.reach.seq)});
  }
  return heading("What each checkpointing policy would do") + columns(rows, "lrrrrrr", 2) +
         wrapped(fmt::format(
                     "Extra time is an estimate: what is computed again against the whole step. Products count their "
                     "FLOPs; other operators, the {:.0f} FLOPs per byte that {} could do while their bytes move. "
                     "Backward counts twice its forward.",
                     d.device.balance(), d.device.flops > 0 ? d.device.name : "an A100"),
                 2);
}

std::string means_table(const Diagnosis& d) {
  if (d.one_by_one.empty()) return "";
  Rows rows{{"beside checkpointing", "leaves", "fits", "states", "activations", "in host memory"}};
  for (const Option& o : d.one_by_one) {
    rows.push_back({o.means.text(), human_bytes(o.device_bytes()), o.fits ? "yes" : "no", human_bytes(o.states.total()),
                    human_bytes(o.policy.peak_bytes()), o.host_bytes() > 0 ? human_bytes(o.host_bytes()) : "-"});
    if (o.means.zero_stage > 0 && !o.fits) {
      rows.back()[0] = fmt::format("ZeRO-{} over any number of ranks", o.means.zero_stage);
    }
  }
  return heading("What each further means would leave on the device") + columns(rows, "lrrrrr", 2) +
         wrapped(
             "States are weights, gradients and optimizer state. Activations are those of the fastest policy that "
             "fits, or of the leanest. ZeRO is told with the fewest ranks that do; each rank has a batch of its own. "
             "Loss "
             "in chunks: logits and loss of an eighth of the tokens at a time.",
             2);
}

std::string tensor_table(const Diagnosis& d) {
  Rows rows{{"tensor", "made by", "from", "saved by", "elements", "bytes"}};
  for (const Tensor& t : d.checkpointing->block()) {
    std::string from;
    for (const std::string& name : t.from) from += (from.empty() ? "" : ", ") + name;
    if (!t.with.empty()) from = "with " + t.with;
    rows.push_back({t.name, t.made_by.empty() ? "the block before" : t.made_by, from,
                    t.saved_by.empty() ? "-" : t.saved_by,
                    fmt::format("{} × {} B", pretty(t.elements), t.element_bytes), human_bytes(t.bytes)});
  }
  return heading("One block, tensor by tensor") + columns(rows, "lllllr", 2);
}

}  // namespace retrace::doctor
