#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include <retrace/errors.h>

#include "report/curve_points.h"
#include "report/ladder.h"
#include "report/rows.h"
#include "report/scenario.h"
#include "report/table.h"

namespace retrace::report {
namespace {

using nlohmann::json;
using plan::at;
using plan::kNone;

constexpr size_t kPolicyBuckets = 400, kRungBuckets = 160;
constexpr std::string_view kPlace = "<!--retrace-data-->";

int64_t nanoseconds(double seconds) { return std::llround(std::min(seconds, 1e9) * 1e9); }

json owners_json(const plan::Owners& o) { return {o.weights, o.gradients, o.kept, o.rebuilt, o.other}; }

// Texts once, by number.
class Texts {
 public:
  size_t operator()(const std::string& text) {
    const auto [place, is_new] = number_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return place->second;
  }
  const json& all() const { return texts_; }

 private:
  std::unordered_map<std::string, size_t> number_;
  json texts_ = json::array();
};

// Three operators' fates per character, two bits each, in the characters of base64.
std::string packed(const std::vector<plan::History::Fate>& fates) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text((fates.size() + 2) / 3, '\0');
  for (size_t i = 0; i < fates.size(); ++i)
    text[i / 3] = static_cast<char>(text[i / 3] | (static_cast<unsigned>(fates[i]) << (2 * (i % 3))));
  for (char& c : text) c = kDigits[static_cast<unsigned char>(c)];
  return text;
}

class PageData {
 public:
  PageData(const plan::Graph& graph, const PageOptions& options)
      : graph_(graph), options_(options), maker_(makers(graph)), event_ops_(find_event_ops()) {}

  json all() {
    options_.progress("policies");
    json scenarios = json::array();
    add_rows();
    for (const Scenario& scenario : under_named_policies(graph_))
      scenarios.push_back(scenario_json(scenario, kPolicyBuckets));
    if (options_.plan) {
      scenarios.push_back(scenario_json(
          under_plan(graph_of(*options_.plan, graph_), *options_.plan, options_.plan_name, ScenarioKind::file),
          kPolicyBuckets));
    }
    const std::vector<BudgetPlan> rungs = ladder(graph_, options_.rungs, options_.progress);
    options_.progress("the page");
    for (const BudgetPlan& rung : rungs)
      scenarios.push_back(scenario_json(
          under_plan(*rung.graph, rung.plan, "budget:" + human_bytes(rung.plan.budget_bytes), ScenarioKind::budget),
          kRungBuckets));
    json data = {{"retrace_report", 1},
                 {"title", options_.title},
                 {"version", options_.version},
                 {"seconds", nanoseconds(graph_.seconds)},
                 {"weight_bytes", graph_.weight_bytes},
                 {"values", graph_.values.size()},
                 {"rows", std::move(rows_)},
                 {"scenarios", std::move(scenarios)}};
    data["texts"] = texts_.all();  // last, when all are known
    return data;
  }

 private:
  // By event, the operator that people would name: the one that runs, or whose result is saved, asked for or let go of.
  std::vector<int32_t> find_event_ops() const {
    std::vector<int32_t> ops;
    for (const plan::Event& event : graph_.events) {
      switch (event.kind) {
        case plan::EventKind::op:
          ops.push_back(event.id);
          break;
        case plan::EventKind::release:
          ops.push_back(maker_[at(event.id)]);
          break;
        case plan::EventKind::end:
          ops.push_back(kNone);
          break;
        default:
          ops.push_back(maker_[at(graph_.handles[at(event.id)])]);
      }
    }
    return ops;
  }

  void add_rows() {
    std::vector<size_t> names, layers, shapes;
    std::vector<int64_t> bytes, saved, waits, seconds;
    const std::vector<Row> all = report::rows(graph_, StepTimes(graph_));
    for (size_t o = 0; o < all.size(); ++o) {
      names.push_back(texts_(graph_.ops[o].name));
      layers.push_back(texts_(graph_.ops[o].module));
      shapes.push_back(texts_(all[o].shape));
      bytes.push_back(all[o].bytes);
      saved.push_back(all[o].saved_bytes);
      waits.push_back(all[o].wait_seconds < 0 ? -1 : nanoseconds(all[o].wait_seconds));
      seconds.push_back(all[o].rebuild_seconds < 0 ? -1 : nanoseconds(all[o].rebuild_seconds));
    }
    rows_ = {{"name", names},  {"layer", layers}, {"shape", shapes},   {"bytes", bytes},
             {"saved", saved}, {"waits", waits},  {"rebuild", seconds}};
  }

  json scenario_json(const Scenario& scenario, size_t buckets) {
    const StepTimes times(graph_, scenario.history.replay_seconds);
    constexpr const char* kKinds[] = {"policy", "budget", "plan"};
    json result = {{"name", scenario.name},
                   {"kind", kKinds[static_cast<int>(scenario.kind)]},
                   {"peak", scenario.outcome.peak_bytes},
                   {"owners", owners_json(scenario.outcome.at_peak)},
                   {"average", std::llround(times.average(scenario.outcome.event_peaks))},
                   {"extra", nanoseconds(scenario.outcome.replay_seconds)},
                   {"rerun", scenario.outcome.ops_replayed},
                   {"layers", layers_json(scenario)},
                   {"curve", curve_json(scenario, times, buckets)}};
    add_fates(scenario, result);
    if (scenario.plan) {
      result["budget"] = scenario.plan->budget_bytes;
      result["bound"] = nanoseconds(scenario.plan->bound_seconds - graph_.seconds);
    }
    return result;
  }

  // What backward asks for, by how it gets it: values and bytes. Of what is encoded, also the bytes it takes meanwhile.
  void add_fates(const Scenario& scenario, json& result) const {
    using Fate = plan::History::Fate;
    struct Sum {
      int64_t values = 0, bytes = 0, held_bytes = 0;
    };
    std::map<Fate, Sum> sums;
    std::vector<Fate> by_op(graph_.ops.size(), Fate::not_asked);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Fate fate = scenario.history.fates[v];
      if (fate == Fate::not_asked || maker_[v] == kNone) continue;
      Fate& its = by_op[at(maker_[v])];
      its = std::max(its, fate);
      Sum& sum = sums[fate];
      ++sum.values;
      sum.bytes += graph_.values[v].bytes;
      if (fate == Fate::encoded) sum.held_bytes += graph_.values[v].bytes_in(scenario.plan->choices[v].way());
    }
    result["kept"] = {sums[Fate::kept].values, sums[Fate::kept].bytes};
    result["rebuilt"] = {sums[Fate::rebuilt].values, sums[Fate::rebuilt].bytes};
    const Sum& encoded = sums[Fate::encoded];
    result["encoded"] = {encoded.values, encoded.bytes, encoded.held_bytes};
    result["lossy"] = scenario.plan ? scenario.plan->lossy_values() : 0;
    result["fates"] = packed(by_op);
  }

  // What is live at the peak of the tape's values, layer by layer: kept, rebuilt, other.
  json layers_json(const Scenario& scenario) {
    std::map<size_t, std::array<int64_t, 3>> by_layer;
    for (const plan::History::Live& live : scenario.history.live)
      by_layer[texts_(module_of(graph_, maker_, live.value))][static_cast<size_t>(live.owner)] += live.bytes;
    json result = json::array();
    for (const auto& [layer, bytes] : by_layer) result.push_back({layer, bytes[0], bytes[1], bytes[2]});
    return result;
  }

  // Columns; every number is the difference from the one before, which is mostly short.
  json curve_json(const Scenario& scenario, const StepTimes& times, size_t buckets) const {
    const std::vector<CurvePoint> points = curve_points(times, scenario.history, buckets);
    const auto column = [&](auto&& number) {
      std::vector<int64_t> differences;
      int64_t before = 0;
      for (const CurvePoint& point : points) {
        const int64_t now = number(point);
        differences.push_back(now - before);
        before = now;
      }
      return differences;
    };
    const auto peak = std::find_if(points.begin(), points.end(),
                                   [&](const CurvePoint& p) { return p.event == scenario.outcome.peak_event; });
    const size_t first_backward = first_unpack(graph_);
    return {{"time", column([](const CurvePoint& p) { return nanoseconds(p.seconds); })},
            {"weights", column([](const CurvePoint& p) { return p.owners.weights; })},
            {"gradients", column([](const CurvePoint& p) { return p.owners.gradients; })},
            {"kept", column([](const CurvePoint& p) { return p.owners.kept; })},
            {"rebuilt", column([](const CurvePoint& p) { return p.owners.rebuilt; })},
            {"other", column([](const CurvePoint& p) { return p.owners.other; })},
            {"op", column([&](const CurvePoint& p) { return event_ops_[p.event]; })},
            {"event", column([&](const CurvePoint& p) { return static_cast<int64_t>(graph_.events[p.event].kind); })},
            {"end", nanoseconds(times.end())},
            {"backward", first_backward < graph_.events.size() ? nanoseconds(times.begin(first_backward)) : -1},
            {"peak", peak - points.begin()}};
  }

  const plan::Graph& graph_;
  const PageOptions& options_;
  const std::vector<plan::OpId> maker_;
  const std::vector<int32_t> event_ops_;
  Texts texts_;
  json rows_;
};

}  // namespace

std::string page_data(const plan::Graph& graph, const PageOptions& options) {
  return PageData(graph, options).all().dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string page(std::string_view page_template, const std::string& data) {
  const size_t place = page_template.find(kPlace);
  if (place == std::string_view::npos) {
    throw InternalError(
        "[report] the page's template has no place for the data, so no report was written. Build again.");
  }
  std::string safe;
  safe.reserve(data.size());
  for (const char c : data) c == '<' ? safe += "\\u003c" : safe += c;
  std::string result(page_template.substr(0, place));
  result += R"(<script type="application/json" id="data">)" + safe + "</script>";
  return result += page_template.substr(place + kPlace.size());
}

}  // namespace retrace::report
