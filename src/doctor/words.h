// What the doctor's texts share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retrace::doctor {

// "8.03 B", "124.4 M", "512".
std::string count_text(int64_t count);

// "+31 %", "+0.4 %", "none".
std::string extra_text(double extra);

// "131,072".
std::string number_text(int64_t number);

// Sentences in lines of at most 100 columns, each indented.
std::string wrapped(const std::string& text, size_t indent = 0);

// Columns as wide as needed, two blanks between them. `align`: 'l' or 'r' per column.
std::string columns(const std::vector<std::vector<std::string>>& rows, const std::string& align, size_t indent = 0);

// A heading with an empty line before it.
std::string heading(const std::string& text);

}  // namespace retrace::doctor
