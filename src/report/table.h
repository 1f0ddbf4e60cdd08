// Text tables for terminals, and numbers as people read them. Knows nothing of LibTorch.
//
//   Table table({"policy", "peak"});
//   table.add_row({"plain", human_bytes(389'451'776)});
//   std::cout << table.str();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace retrace::report {

// "371.4 MiB": binary units, one decimal from KiB on; negative amounts keep their sign.
std::string human_bytes(int64_t bytes);

// "1.234 s", "56.7 ms", "35.1 us": three or four significant digits.
std::string human_seconds(double seconds);

// "29.1 G", "0": a count in thousands, millions, ...
std::string human_count(double count);

// value with a fixed number of decimals: fixed(1.4166, 2) is "1.42".
std::string fixed(double value, int decimals);

// How many columns UTF-8 text takes, a code point counting as one.
size_t display_width(std::string_view text);

// The line without blanks at its end, and with a newline.
std::string trimmed_line(std::string line);

// "aten::native_l...": at most so many columns; what is cut ends in an ellipsis.
std::string shortened(const std::string& text, size_t columns);

// Columns as wide as their widest cell, two blanks between them. The first `left_columns` are aligned left, the others
// right. Cells are UTF-8; a code point counts as one column.
class Table {
 public:
  explicit Table(std::vector<std::string> header, size_t left_columns = 1);

  // Missing cells are blank. Throws std::invalid_argument if there are more cells than columns.
  void add_row(std::vector<std::string> cells);

  // Header, a rule, the rows; every line ends in a newline and none in a blank.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
  size_t left_columns_;
};

}  // namespace retrace::report
