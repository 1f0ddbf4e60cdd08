#include "report/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace retrace::report {

namespace {

constexpr size_t kGap = 2;

// Every byte of a UTF-8 sequence after its first has the form 10xxxxxx.
bool begins_code_point(char c) { return (c & 0xC0) != 0x80; }

void append_line(std::string& text, const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                 size_t left_columns) {
  std::string line;
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string padding(widths[i] - display_width(cells[i]), ' ');
    if (i > 0) line.append(kGap, ' ');
    line += i < left_columns ? cells[i] + padding : padding + cells[i];
  }
  text += trimmed_line(std::move(line));
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  return buffer.data();
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 would round to "1024.0": it reads better as one of the next unit.
  while (std::abs(amount) >= (unit == 0 ? 1024.0 : 1023.95) && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fixed(amount, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string human_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1) return fixed(seconds, size < 10 ? 3 : 1) + " s";
  if (size >= 1e-3) return fixed(seconds * 1e3, 1) + " ms";
  return fixed(seconds * 1e6, 1) + " us";
}

std::string human_count(double count) {
  constexpr std::array<const char*, 7> kUnits = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  for (; std::abs(count) >= (unit == 0 ? 1000.0 : 999.95) && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return fixed(count, unit == 0 ? 0 : 1) + kUnits[unit];
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string trimmed_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string shortened(const std::string& text, size_t columns) {
  if (display_width(text) <= columns || columns < 1) return text;
  size_t end = 0, seen = 0;
  while (end < text.size() && (seen < columns - 1 || !begins_code_point(text[end])))
    seen += begins_code_point(text[end++]);
  return text.substr(0, end) + "…";
}

Table::Table(std::vector<std::string> header, size_t left_columns) : left_columns_(left_columns) {
  rows_.push_back(std::move(header));
}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() > rows_.front().size()) throw std::invalid_argument("[Table::add_row] more cells than columns.");
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::str() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  append_line(text, rows_.front(), widths, left_columns_);
  size_t total = widths.empty() ? 0 : kGap * (widths.size() - 1);
  for (const size_t w : widths) total += w;
  text.append(total, '-').append("\n");
  for (size_t i = 1; i < rows_.size(); ++i) append_line(text, rows_[i], widths, left_columns_);
  return text;
}

}  // namespace retrace::report
