#include "report/curve.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "report/table.h"

namespace retrace::report {
namespace {

constexpr size_t kLabel = 11;   // columns of the scale's labels
constexpr size_t kLeast = 20;   // columns of the narrowest curve
constexpr size_t kEighths = 8;  // of a row, that a block character can tell
constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::string padded(const std::string& text, size_t columns) {
  const size_t width = display_width(text);
  return (width < columns ? std::string(columns - width, ' ') : "") + text;
}

size_t column_of(double seconds, double end, size_t columns) {
  if (end <= 0) return 0;
  return std::min(columns - 1, static_cast<size_t>(seconds / end * static_cast<double>(columns)));
}

// By column, the most of all events that touch it.
std::vector<int64_t> binned(const std::vector<int64_t>& peaks, const StepTimes& times, size_t columns) {
  std::vector<int64_t> bins(columns, 0);
  for (size_t e = 0; e < peaks.size(); ++e) {
    const size_t first = column_of(times.begin(e), times.end(), columns);
    const size_t last = column_of(times.begin(e) + times.duration(e), times.end(), columns);
    // An event that ends where a column begins is not in it.
    const bool inside = last > first && times.begin(e) + times.duration(e) >
                                            times.end() * static_cast<double>(last) / static_cast<double>(columns);
    for (size_t c = first; c <= (inside ? last : std::max(first, last == first ? last : last - 1)); ++c)
      bins[c] = std::max(bins[c], peaks[e]);
  }
  return bins;
}

std::string row_text(const std::vector<int64_t>& bins, size_t row, size_t height, int64_t top) {
  std::string text;
  for (const int64_t bytes : bins) {
    const auto filled = static_cast<size_t>(
        std::ceil(static_cast<double>(bytes) / static_cast<double>(top) * static_cast<double>(height * kEighths)));
    const size_t below = row * kEighths;
    text += kBlocks[filled <= below ? 0 : std::min(filled - below, kEighths)];
  }
  return text;
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// "▼ peak" at a column, with the words on the side where they fit.
std::string peak_line(size_t column, size_t columns, const std::string& label) {
  const size_t wide = display_width(label) + 1;
  const std::string indent(kLabel + 2, ' ');
  if (column + 1 + wide <= columns || column < wide)
    return trimmed_line(indent + std::string(column, ' ') + "▼ " + label);
  return trimmed_line(indent + std::string(column - wide, ' ') + label + " ▼");
}

std::string axis_line(size_t turn, size_t columns, bool has_turn) {
  std::string line = padded("0 B", kLabel) + " ┼";
  if (!has_turn) return trimmed_line(line + repeated("─", columns));
  return trimmed_line(line + repeated("─", turn) + "┴" + repeated("─", columns - turn - 1));
}

std::string words_line(size_t turn, size_t columns, const StepTimes& times, bool has_turn) {
  const std::string end = human_seconds(times.end()), forward = "forward", backward = "backward";
  std::string line(columns, ' ');
  const auto put = [&](size_t at, const std::string& text) {
    if (at + text.size() <= columns && line.find_first_not_of(' ', at) == std::string::npos)
      line.replace(at, text.size(), text);
  };
  put(0, forward);
  put(std::max(turn, forward.size() + 1), backward);
  if (!has_turn) line.assign(columns, ' ');
  if (line.find_last_not_of(' ') == std::string::npos || line.find_last_not_of(' ') + 2 + end.size() <= columns)
    line.replace(columns - end.size(), end.size(), end);
  return trimmed_line(std::string(kLabel + 2, ' ') + line);
}

}  // namespace

std::string draw_curve(const std::vector<int64_t>& event_peaks, const StepTimes& times, const CurveOptions& options) {
  if (event_peaks.empty()) return "";
  const size_t columns = std::max(kLeast, options.width - std::min(options.width, kLabel + 2));
  const size_t height = std::max<size_t>(2, options.height);
  const auto highest = std::max_element(event_peaks.begin(), event_peaks.end());
  const int64_t top = std::max<int64_t>({1, options.top_bytes, *highest});
  const std::vector<int64_t> bins = binned(event_peaks, times, columns);
  const auto peak_event = static_cast<size_t>(highest - event_peaks.begin());
  const bool has_turn = options.first_unpack > 0 && options.first_unpack < times.events();
  const size_t turn = has_turn ? column_of(times.begin(options.first_unpack), times.end(), columns) : 0;

  std::string text;
  if (!options.peak_label.empty())
    text += peak_line(column_of(times.begin(peak_event), times.end(), columns), columns, options.peak_label);
  for (size_t row = height; row-- > 0;) {
    const bool labelled = row + 1 == height || row + 1 == height / 2;
    const auto share = static_cast<double>(row + 1) / static_cast<double>(height);
    const std::string label =
        labelled ? human_bytes(static_cast<int64_t>(std::llround(static_cast<double>(top) * share))) : "";
    text += trimmed_line(padded(label, kLabel) + (labelled ? " ┤" : " │") + row_text(bins, row, height, top));
  }
  return text + axis_line(turn, columns, has_turn) + words_line(turn, columns, times, has_turn);
}

}  // namespace retrace::report
