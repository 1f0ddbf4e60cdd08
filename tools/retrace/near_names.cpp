#include "near_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace retrace::cli {

namespace {

// Levenshtein distance that takes letter case and the choice between '-', '_' and ' ' for no difference at all.
size_t edits(const std::string& a, const std::string& b) {
  const auto fold = [](char c) { return c == '-' || c == ' ' ? '_' : std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (fold(a[i - 1]) == fold(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    const size_t count = edits(name, candidate);
    if (count > std::max<size_t>(1, std::max(name.size(), candidate.size()) / 3)) continue;
    if (best == nullptr || count < fewest) best = &candidate, fewest = count;
  }
  return best == nullptr ? "" : "; did you mean '" + *best + "'?";
}

std::string join(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace retrace::cli
