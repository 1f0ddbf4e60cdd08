#include "doctor/words.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/table.h"

namespace retrace::doctor {
namespace {

using report::display_width;

constexpr size_t kWidth = 100;

}  // namespace

std::string count_text(int64_t count) {
  const double n = static_cast<double>(count);
  if (n >= 999.5e9) return fmt::format("{:.2f} T", n / 1e12);
  if (n >= 999.5e6) return fmt::format("{:.2f} B", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f} M", n / 1e6);
  return number_text(count);
}

std::string extra_text(double extra) {
  if (extra <= 0) return "none";
  if (extra < 0.0005) return "+0.0 %";
  return extra < 0.095 ? fmt::format("+{:.1f} %", 100 * extra) : fmt::format("+{:.0f} %", 100 * extra);
}

std::string number_text(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > (number < 0 ? 4U : 3U);) text.insert(at -= 3, ",");
  return text;
}

std::string wrapped(const std::string& text, size_t indent) {
  std::string result, line;
  const std::string margin(indent, ' ');
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && indent + display_width(line) + 1 + display_width(word) > kWidth) {
      result += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? result : result + margin + line + "\n";
}

std::string columns(const std::vector<std::vector<std::string>>& rows, const std::string& align, size_t indent) {
  std::vector<size_t> widths(align.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - display_width(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (align[i] == 'l' ? row[i] + padding : padding + row[i]);
    }
    text += report::trimmed_line(std::move(line));
  }
  return text;
}

std::string heading(const std::string& text) { return "\n" + text + "\n"; }

}  // namespace retrace::doctor
