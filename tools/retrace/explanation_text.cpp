// The text of `retrace explain`: what a reader of a tape wants to know, in the order he asks it.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "explanation.h"
#include "report/curve.h"
#include "report/table.h"

namespace retrace::cli {
namespace {

using plan::at;
using report::fixed;
using report::human_bytes;
using report::human_seconds;
using report::SavedGroup;

// The most expensive set of operators that the advice puts together, in shares of a step.
constexpr double kCheap = 0.05;

std::string percent(double part, double whole) { return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-"; }
std::string bytes_share(int64_t part, int64_t whole) {
  return percent(static_cast<double>(part), static_cast<double>(whole));
}

std::string time_or_none(double seconds) { return seconds > 0 ? human_seconds(seconds) : "-"; }

// Prose in lines of at most 80 columns.
std::string wrapped(const std::string& text) {
  constexpr size_t kWidth = 80;
  std::string all, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      all += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return all + line + "\n";
}

std::string count(int64_t n, const std::string& one) { return std::to_string(n) + " " + one + (n == 1 ? "" : "s"); }

std::string summary(const Explanation& e) {
  const report::PolicyFigures& full = e.full;
  const plan::Owners& o = full.at_peak;
  const int64_t values = static_cast<int64_t>(e.saved.values().size()) - e.saved.outside();
  const auto line = [](const char* name, const std::string& text) { return "  " + std::string(name) + text + "\n"; };
  return e.tape + ": one training step, " + human_seconds(e.graph.seconds) + "\n\n" +
         line("operators  ", std::to_string(e.graph.ops.size()) + " in forward, " +
                                 std::to_string(e.graph.backward_ops.size()) + " in backward") +
         line("saved      ",
              human_bytes(e.saved.bytes()) + " in " + count(values, "value") + " that forward leaves for backward") +
         line("average    ", human_bytes(static_cast<int64_t>(full.average_bytes)) + " live over the step's time, " +
                                 percent(full.average_bytes, static_cast<double>(full.peak_bytes)) + " of the peak") +
         line("peak       ", human_bytes(full.peak_bytes) + ", once, in " + place_of(e.graph, full.peak_event)) +
         line("           ", "weights " + human_bytes(o.weights) + ", gradients " + human_bytes(o.gradients)) +
         line("           ",
              "kept for backward " + human_bytes(o.kept) + ", other " + human_bytes(o.other + o.rebuilt));
}

std::string curve(const Explanation& e, const report::PolicyFigures& figures, const TextOptions& options) {
  const report::StepTimes times(e.graph, figures.event_extra_seconds);
  return draw_curve(figures.event_peaks, times,
                    {.width = options.columns,
                     .top_bytes = e.full.peak_bytes,
                     .first_unpack = plan::first_unpack(e.graph),
                     .peak_label = "peak " + human_bytes(figures.peak_bytes)});
}

// Which rows of a table are shown: the largest, in their own order.
std::set<size_t> largest(const std::vector<SavedGroup>& groups, size_t rows) {
  std::vector<size_t> order(groups.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return groups[a].bytes > groups[b].bytes; });
  if (rows > 0 && order.size() > rows) order.resize(rows);
  return {order.begin(), order.end()};
}

std::string rest_of(const std::vector<SavedGroup>& groups, const std::set<size_t>& shown, const std::string& what) {
  if (shown.size() == groups.size()) return "";
  int64_t bytes = 0;
  for (size_t i = 0; i < groups.size(); ++i) bytes += shown.contains(i) ? 0 : groups[i].bytes;
  return "... and " + count(static_cast<int64_t>(groups.size() - shown.size()), what) + " with " + human_bytes(bytes) +
         " together; --rows 0 shows all.\n";
}

std::string layers_table(const Explanation& e, const TextOptions& options) {
  auto groups = e.saved.by_layer();
  std::erase_if(groups, [](const SavedGroup& g) { return g.values == 0; });
  const auto shown = largest(groups, options.rows);
  report::Table table({"layer", "operators", "saved", "bytes", "of all", "waits up to", "run again", "rebuild"});
  for (const size_t i : shown) {
    const SavedGroup& g = groups[i];
    table.add_row({report::shortened(g.name, 32), std::to_string(g.ops), std::to_string(g.values), human_bytes(g.bytes),
                   bytes_share(g.bytes, e.saved.bytes()), human_seconds(g.longest_wait_seconds),
                   std::to_string(g.rebuild.ops), human_seconds(g.rebuild.seconds)});
  }
  return R"(
The tape, layer by layer. Forward writes it from top to bottom, backward reads
it from bottom to top: what is written first waits longest. 'run again' counts
the operators that it takes to rebuild what the layer saved, 'rebuild' is their
time.

)" + table.str() +
         rest_of(groups, shown, "layer");
}

std::string ops_table(const Explanation& e, const TextOptions& options) {
  report::Table table({"layer", "operator", "looks like", "bytes", "made at", "waits", "run again", "rebuild"}, 3);
  int64_t shown = 0;
  for (const report::SavedValue& saved : e.saved.values()) {
    if (saved.bytes == 0) continue;
    const plan::Op* const op = saved.op == plan::kNone ? nullptr : &e.graph.ops[at(saved.op)];
    const std::string module = op != nullptr ? op->module : e.graph.values[at(saved.value)].name;
    if (!options.layer.empty() && module != options.layer && !module.starts_with(options.layer + ".")) continue;
    const report::Rebuild rebuild = op != nullptr ? e.saved.rebuild({saved.value}) : report::Rebuild{};
    ++shown;
    table.add_row({report::shortened(module, 32), op != nullptr ? op->name : "(from outside)",
                   look_of(e.graph, saved.value), human_bytes(saved.bytes), human_seconds(saved.made_seconds),
                   human_seconds(saved.wait_seconds()), op != nullptr ? std::to_string(rebuild.ops) : "-",
                   op != nullptr ? human_seconds(rebuild.seconds) : "cannot"});
  }
  if (shown == 0 && !options.layer.empty()) return "\nNothing was saved by a layer called '" + options.layer + "'.\n";
  return R"(
Every value on the tape, as forward writes it. 'run again' counts the operators
that it takes to have this value alone again, 'rebuild' is their time.

)" + table.str();
}

// Backward of a product is two products.
double step_flops(const Explanation& e) { return 3 * e.saved.forward().flops; }

bool is_cheap(const Explanation& e, const report::Rebuild& rebuild) {
  return rebuild.seconds <= kCheap * e.graph.seconds && rebuild.flops <= kCheap * step_flops(e);
}

std::string flops_text(const report::Rebuild& rebuild) {
  if (rebuild.uncounted == 0) return report::human_count(rebuild.flops);
  return rebuild.flops > 0 ? report::human_count(rebuild.flops) + "+" : "?";
}

std::string how_counted(const Explanation& e) {
  const report::Rebuild& forward = e.saved.forward();
  std::string text =
      "FLOPs are those of products, convolutions and fused attention, two for each multiplication with its addition; "
      "other "
      "operators take a few per element and count none. Forward has " +
      report::human_count(forward.flops) + ", a step three times as many.";
  if (forward.uncounted > 0)
    text += " For " + count(forward.uncounted, "product") +
            " the tape has no shapes to count them from (?, +): there the measured time alone decides what is cheap.";
  return wrapped(text);
}

// The cheapest kinds that together take no more than a twentieth of a step to run again, in time and in FLOPs.
std::string advice(const Explanation& e, const std::vector<SavedGroup>& groups) {
  std::vector<plan::ValueId> members;
  std::string names;
  int64_t bytes = 0;
  report::Rebuild all;
  for (const SavedGroup& g : groups) {
    if (report::recomputes_inside(g.name)) continue;
    std::vector<plan::ValueId> more = members;
    more.insert(more.end(), g.members.begin(), g.members.end());
    const report::Rebuild then = e.saved.rebuild(more);
    if (!is_cheap(e, then)) break;
    members = std::move(more);
    bytes += g.bytes;
    all = then;
    names += (names.empty() ? "" : ", ") + g.name;
  }
  if (names.empty())
    return wrapped(
        "Nothing on this tape is cheap: every kind takes more than 5 % of a step's time or FLOPs to run again.");
  return wrapped("Cheap and large, so worth forgetting: " + names + ". Together they hold " + human_bytes(bytes) +
                 " (" + bytes_share(bytes, e.saved.bytes()) + " of what is saved); running them again takes " +
                 human_seconds(all.seconds) + " (" + percent(all.seconds, e.graph.seconds) + " of a step) and " +
                 flops_text(all) + " FLOPs (" + percent(all.flops, step_flops(e)) + ").");
}

std::string fused(const std::vector<SavedGroup>& groups) {
  std::string list;
  for (const SavedGroup& g : groups) {
    if (report::recomputes_inside(g.name)) list += (list.empty() ? "" : ", ") + g.name;
  }
  if (list.empty()) return "";
  return wrapped("Already recomputing inside themselves: " + list +
                 ". Their backward makes the attention scores again anyway; forgetting their results too would run the "
                 "whole operator once more for little memory. Keep them.");
}

std::string kinds_table(const Explanation& e, const TextOptions& options) {
  const auto groups = e.saved.by_operator();
  if (groups.empty()) return "\nNothing was saved that an operator of the step had made.\n";
  const size_t most = options.rows == 0 ? groups.size() : std::min(groups.size(), options.rows);
  report::Table table({"operator", "saved", "bytes", "of all", "rebuild", "of a step", "FLOPs"});
  for (size_t i = 0; i < most; ++i) {
    const SavedGroup& g = groups[i];
    table.add_row({report::shortened(g.name, 44), std::to_string(g.values), human_bytes(g.bytes),
                   bytes_share(g.bytes, e.saved.bytes()), human_seconds(g.rebuild.seconds),
                   percent(g.rebuild.seconds, e.graph.seconds), flops_text(g.rebuild)});
  }
  return "\nThe tape by kind of operator, the cheapest to rebuild per byte first: time and\nFLOPs of what would run "
         "again.\n\n" +
         table.str() +
         (most < groups.size() ? "... and " + count(static_cast<int64_t>(groups.size() - most), "kind") +
                                     " that cost more; --rows 0 shows all.\n"
                               : "") +
         "\n" + how_counted(e) + "\n" + advice(e, groups) + fused(groups);
}

std::string policies_table(const Explanation& e) {
  report::Table table({"policy", "peak", "of full", "average", "extra time", "step", "run again"});
  std::string refused;
  for (const report::PolicyFigures& p : e.policies) {
    if (!p.fits) {
      table.add_row({p.policy, "does not fit"});
      refused += p.policy + " cannot hold: the smallest budget that can is " + human_bytes(p.smallest_bytes) + " (" +
                 std::to_string(p.smallest_bytes) + " bytes).\n";
      continue;
    }
    table.add_row({p.policy, human_bytes(p.peak_bytes), bytes_share(p.peak_bytes, e.full.peak_bytes),
                   human_bytes(static_cast<int64_t>(p.average_bytes)), time_or_none(p.extra_seconds),
                   fixed(p.ratio(e.graph.seconds), 3) + "x", std::to_string(p.ops_again)});
  }
  return R"(
What policies would make of the step, predicted. 'average' is over its time,
'run again' counts operators that run once more in backward.

)" + table.str() +
         refused;
}

std::string again_table(const Explanation& e, const TextOptions& options) {
  std::vector<std::string> header{"run again"};
  std::map<std::string, double> seconds;  // the most of any policy
  for (const report::PolicyFigures& p : e.policies) {
    if (p.ops_again > 0) header.push_back(p.policy);
    for (const auto& [name, again] : p.again) seconds[name] = std::max(seconds[name], again.seconds);
  }
  if (seconds.empty()) return "";
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, most] : seconds) order.emplace_back(-most, name);
  std::sort(order.begin(), order.end());
  const size_t most = options.rows == 0 ? order.size() : std::min(order.size(), options.rows);
  report::Table table(header);
  for (size_t i = 0; i < most; ++i) {
    std::vector<std::string> cells{report::shortened(order[i].second, 36)};
    for (const report::PolicyFigures& p : e.policies) {
      if (p.ops_again == 0) continue;
      const auto found = p.again.find(order[i].second);
      cells.push_back(found == p.again.end() ? "-" : std::to_string(found->second.times));
    }
    table.add_row(std::move(cells));
  }
  return "\nHow often each operator runs again, those that take most time first.\n\n" + table.str() +
         (most < order.size()
              ? "... and " + count(static_cast<int64_t>(order.size() - most), "operator") + "; --rows 0 shows all.\n"
              : "");
}

}  // namespace

std::string text_of(const Explanation& e, const TextOptions& options) {
  std::string text = summary(e) + "\n" + curve(e, e.full, options);
  text += options.ops ? ops_table(e, options) : layers_table(e, options);
  if (!options.ops) text += kinds_table(e, options);
  if (e.policies.empty()) return text;
  text += policies_table(e);
  for (const report::PolicyFigures& p : e.policies) {
    if (options.all_curves && p.fits && p.extra_seconds > 0) text += "\n" + p.policy + "\n" + curve(e, p, options);
  }
  return text + again_table(e, options);
}

}  // namespace retrace::cli
