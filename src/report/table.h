// Text tables for terminals, and numbers as people read them. Knows nothing of LibTorch.
//
//   Table table({"policy", "peak"});
//   table.add_row({"plain", human_bytes(389'451'776)});
//   std::cout << table.str();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retrace::report {

// "371.4 MiB": binary units, one decimal from KiB on; negative amounts keep their sign.
std::string human_bytes(int64_t bytes);

// "1.234 s", "56.7 ms", "35.1 us": three or four significant digits.
std::string human_seconds(double seconds);

// value with a fixed number of decimals: fixed(1.4166, 2) is "1.42".
std::string fixed(double value, int decimals);

// Columns as wide as their widest cell, two blanks between them. The first column is aligned left, the others right.
// Cells are UTF-8; a code point counts as one column.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // Missing cells are blank. Throws std::invalid_argument if there are more cells than columns.
  void add_row(std::vector<std::string> cells);

  // Header, a rule, the rows; every line ends in a newline and none in a blank.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

}  // namespace retrace::report
