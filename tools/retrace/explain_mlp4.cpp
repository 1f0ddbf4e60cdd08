// retrace explain mlp4: the hand trace.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "report/hand_trace.h"
#include "report/table.h"
#include "tape_input.h"

namespace retrace::cli {
namespace {

using report::HandNet;
using report::HandTrace;

constexpr const char* kIntroduction =
    R"(x0 = a·S, then four layers x' = x + tanh(x·W)·V. In KiB: x and h 4 each; a, z, g
and the weights S, W and V 1 each. In ms: a product 4, tanh and a sum 1 each.

Backward needs x (for the gradient of W) and g (for those of V and tanh), so
autograd saves x0 to x3 and g1 to g4. The input a is there anyway.
  full     keeps all of it
  every:1  keeps every stream: x0 x1 x2 x3
  every:2  keeps every second stream: x1 x3

Each row: what is on the tape after it, '+' before what was forgotten and is
there again, and the most KiB that are live during it: weights 9, a 1, what the
program has in its hands, gradients, the tape. 'back h4' is backward through h4;
'back z4' goes on to x3, the other input of the sum that made x4.

)";

constexpr const char* kMoral = R"(
Keeping fewer streams makes the tape shorter and the stretches between them
longer, and a stretch that is rebuilt is in memory as a whole. So every:N is a
dial, not a switch.
)";

std::string joined(const std::vector<std::string>& names, const char* mark = "") {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : " ") + (mark + name);
  return list;
}

std::string tape_of(const HandTrace::Moment& moment) {
  const std::string held = joined(moment.held), rebuilt = joined(moment.rebuilt, "+");
  return held + (held.empty() || rebuilt.empty() ? "" : " ") + rebuilt;
}

std::string kib(int64_t bytes) { return std::to_string(bytes / 1024); }

// "x0 g1      16": the tape as wide as the policy's longest, then KiB.
std::string cell_of(const HandTrace& trace, size_t row) {
  size_t widest = trace.policy.size();
  for (const HandTrace::Moment& moment : trace.moments) widest = std::max(widest, tape_of(moment).size());
  const std::string tape = tape_of(trace.moments[row]);
  return tape + std::string(widest - tape.size() + 1, ' ') + kib(trace.moments[row].live_bytes);
}

std::string rows_table(const HandNet& net, const std::vector<HandTrace>& traces) {
  std::vector<std::string> header{"step"};
  for (const HandTrace& trace : traces) header.push_back(trace.policy);
  report::Table table(header, header.size());
  for (size_t r = 0; r < net.rows.size(); ++r) {
    std::vector<std::string> cells{net.rows[r].what};
    for (const HandTrace& trace : traces) cells.push_back(cell_of(trace, r));
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string again_text(const HandNet& net, const std::vector<HandTrace>& traces) {
  std::string text;
  for (const HandTrace& trace : traces) {
    std::string line;
    for (size_t r = 0; r < net.rows.size(); ++r) {
      const auto& again = trace.moments[r].ran_again;
      if (!again.empty()) line += (line.empty() ? "" : "; ") + net.rows[r].what + ": " + joined(again);
    }
    if (!line.empty()) text += "  " + trace.policy + "  " + line + "\n";
  }
  return text;
}

std::string summary_table(const HandNet& net, const std::vector<HandTrace>& traces) {
  report::Table table({"policy", "keeps", "tape", "peak", "run again", "extra time", "step"}, 2);
  for (const HandTrace& trace : traces) {
    const bool full = trace.policy == "full";
    const double step = net.graph.seconds + trace.extra_seconds;
    table.add_row({trace.policy,
                   full                 ? "all"
                   : trace.kept.empty() ? "nothing"
                                        : joined(trace.kept),
                   kib(trace.held_bytes) + " KiB", kib(trace.peak_bytes) + " KiB", std::to_string(trace.ops_again),
                   report::fixed(1e3 * trace.extra_seconds, 0) + " ms", report::fixed(1e3 * step, 0) + " ms"});
  }
  return table.str();
}

// "full, back z4: weights 9, a 1; x0 4, ...; 40 together".
std::string peaks_text(const HandNet& net, const std::vector<HandTrace>& traces) {
  constexpr size_t kWidth = 76;
  std::string text;
  for (const HandTrace& trace : traces) {
    const HandTrace::Moment& moment = trace.moments[trace.peak_row];
    std::string line = "  " + trace.policy + ", " + net.rows[trace.peak_row].what + ":";
    for (size_t i = 0; i < moment.parts.size(); ++i) {
      const std::string part = (i == 0 ? " " : " + ") + moment.parts[i].name + " " + kib(moment.parts[i].bytes);
      if (line.size() + part.size() > kWidth) {
        text += line + "\n";
        line = "   ";
      }
      line += part;
    }
    text += line + " = " + kib(moment.live_bytes) + "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const HandNet& net, const HandTrace& trace) {
  auto rows = nlohmann::ordered_json::array();
  for (size_t r = 0; r < net.rows.size(); ++r) {
    const HandTrace::Moment& moment = trace.moments[r];
    rows.push_back({{"step", net.rows[r].what},
                    {"held", moment.held},
                    {"rebuilt", moment.rebuilt},
                    {"ran_again", moment.ran_again},
                    {"live_bytes", moment.live_bytes}});
  }
  return {{"policy", trace.policy},
          {"peak_bytes", trace.peak_bytes},
          {"held_bytes", trace.held_bytes},
          {"operators_again", trace.ops_again},
          {"extra_seconds", trace.extra_seconds},
          {"rows", rows}};
}

}  // namespace

int explain_mlp4(bool json) {
  const HandNet net = report::make_hand_net();
  const std::vector<HandTrace> shown{trace_full(net), trace_every(net, 1), trace_every(net, 2)};
  std::vector<HandTrace> all = shown;
  all.push_back(trace_every(net, 3));
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const HandTrace& trace : all) rows.push_back(to_json(net, trace));
    std::cout << to_text(rows);
    return kOk;
  }
  std::cout << kIntroduction << rows_table(net, shown) << "\nWhat runs again, and when:\n"
            << again_text(net, shown) << "\n"
            << summary_table(net, all)
            << "\nThe peaks in parts. dV4 is the gradient of V4, d4 that of x4, e4 what comes back\nto x3 by way of "
               "z4; d3 is the sum of d4 and e4.\n"
            << peaks_text(net, shown) << kMoral;
  return kOk;
}

}  // namespace retrace::cli
