#include "near_names.h"

#include <algorithm>
#include <cctype>

#include "commands.h"
#include "policy/near_names.h"

namespace retrace::cli {

namespace {

// Letter case and the choice between '-' and '_' are no difference at all.
std::string folded(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    const size_t count = edit_distance(folded(name), folded(candidate));
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

void check_is_known(const std::string& name, const std::vector<std::string>& known, const std::string& command,
                    const std::string& noun, const std::string& plural) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw BadInput("[" + command + "] no " + noun + " is called '" + name + "', nothing was run" +
                 did_you_mean(name, known) + " The " + plural + " are " + join(known) + ".");
}

}  // namespace retrace::cli
