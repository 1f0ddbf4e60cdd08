#include "near_names.h"

#include <algorithm>
#include <cctype>

namespace retrace::cli {

namespace {

// Letter case and the choice between '-' and '_' are no difference at all.
std::string folded(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Levenshtein distance in which swapping two neighbours counts as one edit.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    const size_t count = edits(folded(name), folded(candidate));
    if (count > std::max<size_t>(1, std::max(name.size(), candidate.size()) / 3)) continue;
    if (best == nullptr || count < fewest) best = &candidate, fewest = count;
  }
  return best == nullptr ? "." : "; did you mean '" + *best + "'?";
}

std::string join(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace retrace::cli
