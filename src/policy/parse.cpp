#include "policy/parse.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <retrace/errors.h>

#include "plan/graph/graph.h"
#include "policy/near_names.h"
#include "policy/rules.h"

namespace retrace {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string stem_of(const std::string& text) { return text.substr(0, text.find(':')); }

[[noreturn]] void refuse_unknown(const std::string& text, const std::vector<std::string>& also) {
  std::vector<std::string> spellings = policy_spellings(), stems;
  spellings.insert(spellings.end(), also.begin(), also.end());
  for (const std::string& spelling : spellings) stems.push_back(stem_of(spelling));
  const std::string stem = stem_of(text), near = nearest_names(stem, stems, 1).front();
  const bool is_near = edit_distance(stem, near) <= std::max<size_t>(1, std::max(stem.size(), near.size()) / 3);
  throw UsageError("[policy] no policy is called '" + text + "', so nothing was done" +
                   (is_near ? "; did you mean '" + near + "'?" : ".") + " The policies are " + joined(spellings) + ".");
}

std::vector<std::string> operators_of(const std::string& text, const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  if (names.empty()) {
    throw UsageError(
        "[policy] '" + text +
        "' names no operator, so it would keep nothing. Write for example selective:aten::mm,aten::bmm, or "
        "selective alone for the default list.");
  }
  return names;
}

void check_operators(const std::vector<std::string>& names, const plan::Graph& graph) {
  std::vector<std::string> known;
  for (const plan::Op& op : graph.ops) known.push_back(op.name);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::string& name : names) {
    if (std::binary_search(known.begin(), known.end(), name)) continue;
    throw UsageError("[selective] op '" + name + "': the tape has none of that name, so nothing would be kept. Near: " +
                     joined(nearest_names(name, known, 3)) + ".");
  }
}

}  // namespace

const std::vector<std::string>& policy_spellings() {
  static const std::vector<std::string> spellings = {"full",      "keep_all",        "recompute_all", "every:N",
                                                     "selective", "selective:OP,OP", "budget:B"};
  return spellings;
}

int64_t parse_count(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) {
    throw UsageError("[policy] '" + text + "': '" + digits +
                     "' is not a whole number of 1 or more, so it says nothing. Write for example " +
                     text.substr(0, colon) + ":2.");
  }
  return value;
}

Policy parse_policy(const std::string& text, const SelectiveOf& selective_of, const std::vector<std::string>& also) {
  const size_t colon = text.find(':');
  const std::string stem = stem_of(text);
  const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (text == "keep_all" || text == "full") return keep_all();
  if (text == "recompute_all") return recompute_all();
  if (text == "selective") return selective();
  if (stem == "selective") return selective_of(operators_of(text, argument));
  if (stem == "every") return every(parse_count(text));
  if (stem == "budget") return within_budget(budget(argument));
  refuse_unknown(text, also);
}

Policy parse_policy(const std::string& text, const plan::Graph& graph) {
  return parse_policy(text, [&](const std::vector<std::string>& names) {
    check_operators(names, graph);
    return selective_of_known(names);
  });
}

}  // namespace retrace
