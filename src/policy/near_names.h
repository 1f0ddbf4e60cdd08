// Which known names somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace retrace {

// Levenshtein's distance, where two neighbours that are swapped count as one edit.
size_t edit_distance(std::string_view a, std::string_view b);

// Up to `count` names nearest to `wanted`, nearest first.
std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string>& names, size_t count);

}  // namespace retrace
