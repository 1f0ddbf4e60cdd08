// The plan file: JSON, so that people can read what will be kept and compare two plans with a diff.

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include <retrace/errors.h>

#include "plan/file/disk.h"
#include "plan/file/file.h"

namespace retrace::plan {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // to write; to read, it looks for a key's twin among all others

constexpr int kVersion = 2;
constexpr size_t kCharactersPerLine = 100;
constexpr int kDeepest = 3;
constexpr size_t kLongestReason = 200;
constexpr const char* kWords =
    "one per value: keep (as it is), way1, way2, ... (as the tape lists them), rebuild, rebuild_each_time";

// A count and lists of exceptions would be shorter than a word per value, but then a small file could ask for any
// amount of memory.
std::string word_of(Choice choice) {
  if (choice == Choice::rebuild()) return "rebuild";
  if (choice == Choice::rebuild_each_time()) return "rebuild_each_time";
  return choice.way() == kAsItIs ? "keep" : "way" + std::to_string(choice.way());
}

std::optional<Choice> choice_of(std::string_view word) {
  for (const Choice choice : {Choice::keep(), Choice::rebuild(), Choice::rebuild_each_time()}) {
    if (word == word_of(choice)) return choice;
  }
  int way = 0;
  const char* const end = word.data() + word.size();
  if (!word.starts_with("way") || std::from_chars(word.data() + 3, end, way).ptr != end) return std::nullopt;
  return way > kAsItIs && way <= kMostWays ? std::optional(Choice::hold(way)) : std::nullopt;
}

std::string hexadecimal(uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

OrderedJson choice_lines(const Choices& choices) {
  OrderedJson lines = OrderedJson::array();
  std::string line;
  for (size_t i = 0; i < choices.size(); ++i) {
    line += (line.empty() ? "" : " ") + word_of(choices[i]);
    if (line.size() < kCharactersPerLine && i + 1 < choices.size()) continue;
    lines.push_back(line);
    line.clear();
  }
  return lines;
}

OrderedJson held_rows(const std::vector<HeldValues>& held) {
  OrderedJson rows = OrderedJson::array();
  for (const HeldValues& h : held) {
    rows.push_back({{"kind", h.kind},
                    {"values", h.values},
                    {"bytes", h.bytes},
                    {"plain_bytes", h.plain_bytes},
                    {"lossy", h.lossy}});
  }
  return rows;
}

// Nesting costs the parser a hundred bytes per bracket; ours is shallow. (Asking the parser to tell while it parses
// takes it quadratic time.)
bool is_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

// Reads one file's members; every complaint names the file and the member.
class PlanReader {
 public:
  PlanReader(const Json& json, const std::string& name) : json_(json), name_(name) {}

  Plan plan() {
    version();
    Plan plan;
    plan.signature = signature();
    plan.strategy = text(json_, "strategy");
    plan.budget_bytes = amount(json_, "budget_bytes");
    plan.peak_bytes = amount(json_, "peak_bytes");
    const Json& owners = member(json_, "at_peak");
    plan.at_peak = {.weights = integer(owners, "weights"),
                    .gradients = integer(owners, "gradients"),
                    .kept = integer(owners, "kept"),
                    .rebuilt = integer(owners, "rebuilt"),
                    .other = integer(owners, "other")};
    plan.seconds = seconds("seconds");
    plan.replay_seconds = seconds("replay_seconds");
    plan.bound_seconds = seconds("bound_seconds");
    plan.planning_seconds = seconds("planning_seconds");
    plan.held = held();
    plan.choices = choices();
    return plan;
  }

 private:
  void version() const {
    if (!json_.is_object() || !json_.contains("retrace_plan")) fail("is not a Retrace plan");
    const Json& version = json_["retrace_plan"];
    if (!version.is_number_integer() || version < 1) fail("has a version that does not exist");
    if (version != kVersion)
      fail("is of version " + version.dump() + ", and this Retrace reads version " + std::to_string(kVersion));
  }

  uint64_t signature() const {
    const std::string digits = text(json_, "signature");
    uint64_t value = 0;
    const char* const end = digits.data() + digits.size();
    if (!digits.starts_with("0x") || digits.size() < 3) fail("'signature' is not a hexadecimal number");
    const auto result = std::from_chars(digits.data() + 2, end, value, 16);
    if (result.ec != std::errc() || result.ptr != end) fail("'signature' is not a hexadecimal number of 64 bits");
    return value;
  }

  Choices choices() const {
    const Json& lines = member(json_, "choices");
    if (!lines.is_array()) fail("'choices' is not a list of lines");
    Choices choices;
    for (const Json& line : lines) {
      if (!line.is_string()) fail("'choices' has a line that is not text");
      std::string_view rest = line.get_ref<const std::string&>();
      while (!rest.empty()) {
        const std::string_view word = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(rest.size(), word.size() + 1));
        const auto choice = choice_of(word);
        if (!choice) fail("'choices' has a word that is none of " + std::string(kWords));
        choices.push_back(*choice);
      }
    }
    if (amount(json_, "values") != static_cast<int64_t>(choices.size()))
      fail("'choices' has " + std::to_string(choices.size()) + " words, which is not what 'values' says");
    return choices;
  }

  std::vector<HeldValues> held() const {
    const Json& rows = member(json_, "held");
    if (!rows.is_array()) fail("'held' is not a list");
    std::vector<HeldValues> held;
    for (const Json& row : rows) {
      const Json& lossy = member(row, "lossy");
      if (!lossy.is_boolean()) fail("'lossy' is neither true nor false");
      held.push_back({text(row, "kind"), amount(row, "values"), amount(row, "bytes"), amount(row, "plain_bytes"),
                      lossy.get<bool>()});
    }
    return held;
  }

  const Json& member(const Json& in, const char* key) const {
    const auto found = in.find(key);  // the end of anything that is no object
    if (found == in.end()) fail("has no '" + std::string(key) + "'");
    return *found;
  }

  std::string text(const Json& in, const char* key) const {
    const Json& value = member(in, key);
    if (!value.is_string()) fail("'" + std::string(key) + "' is not text");
    return value.get<std::string>();
  }

  int64_t integer(const Json& in, const char* key) const {
    const Json& value = member(in, key);
    const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (!value.is_number_integer() || too_large) fail("'" + std::string(key) + "' is not a number of bytes");
    return value.get<int64_t>();
  }

  int64_t amount(const Json& in, const char* key) const {
    const int64_t value = integer(in, key);
    if (value < 0) fail("'" + std::string(key) + "' is negative");
    return value;
  }

  double seconds(const char* key) const {
    const Json& value = member(json_, key);
    if (!value.is_number() || !(value.get<double>() >= 0))
      fail("'" + std::string(key) + "' is not a number of seconds");
    return value.get<double>();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("[load_plan] '" + name_ + "': " + what +
                     ", so it is not known what to keep. Plan again, with the Retrace that is to read the plan.");
  }

  const Json& json_;
  const std::string& name_;
};

}  // namespace

std::string to_json(const Plan& plan) {
  for (const double s : {plan.seconds, plan.replay_seconds, plan.bound_seconds, plan.planning_seconds}) {
    if (!std::isfinite(s))
      throw InternalError("[save] plan: it holds a time that is not finite, so it cannot be saved.");
  }
  const Owners& o = plan.at_peak;
  const OrderedJson json = {
      {"retrace_plan", kVersion},
      {"signature", hexadecimal(plan.signature)},
      {"strategy", plan.strategy},
      {"budget_bytes", plan.budget_bytes},
      {"peak_bytes", plan.peak_bytes},
      {"at_peak",
       {{"weights", o.weights},
        {"gradients", o.gradients},
        {"kept", o.kept},
        {"rebuilt", o.rebuilt},
        {"other", o.other}}},
      {"seconds", plan.seconds},
      {"replay_seconds", plan.replay_seconds},
      {"bound_seconds", plan.bound_seconds},
      {"planning_seconds", plan.planning_seconds},
      {"held", held_rows(plan.held)},
      {"values", plan.choices.size()},
      {"words", kWords},
      {"choices", choice_lines(plan.choices)},
  };
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Plan from_json(std::string_view text, const std::string& name) {
  const auto damaged = [&](const std::string& what) {
    return UsageError("[load_plan] '" + name + "': is not a Retrace plan or is damaged (" + what +
                      "), so it is not known what to keep. Plan again.");
  };
  try {
    if (is_deep(text)) throw damaged("nested too deep");
    const Json json = Json::parse(text);
    return PlanReader(json, name).plan();
  } catch (const Json::exception& error) {
    throw damaged(std::string(error.what()).substr(0, kLongestReason));  // it quotes what it has read
  }
}

void save(const Plan& plan, const std::string& path) { write_whole("save", path, to_json(plan)); }

Plan load_plan(const std::string& path) { return from_json(read_whole("load_plan", path), path); }

}  // namespace retrace::plan
