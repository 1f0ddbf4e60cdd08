// The frontier as characters: memory to the right, time upwards.
#include <algorithm>
#include <cmath>

#include "report/frontier.h"
#include "report/table.h"

namespace retrace::report {
namespace {

constexpr size_t kRows = 14, kLabel = 7;
constexpr const char* kPlan = "●";

class Canvas {
 public:
  Canvas(size_t columns, double left, double right, double bottom, double top)
      : left_(left), right_(right), bottom_(bottom), top_(top), cells_(kRows, std::vector<std::string>(columns, " ")) {}

  size_t columns() const { return cells_.front().size(); }
  size_t column(double x) const { return scaled(x, left_, right_, columns()); }
  size_t row(double y) const { return kRows - 1 - scaled(y, bottom_, top_, kRows); }

  // Beside what is there already, if there is a free place near by.
  void put(double x, double y, const std::string& mark) {
    auto& cells = cells_[row(y)];
    const size_t at = column(x);
    for (const size_t shift : {size_t{0}, size_t{1}, size_t{2}}) {
      const size_t place = at + shift < columns() ? at + shift : at - std::min(at, shift);
      if (cells[place] == " " || (shift == 0 && cells[place] == kPlan && mark != kPlan)) {
        cells[place] = mark;
        return;
      }
    }
  }
  std::string line(size_t row) const {
    std::string text;
    for (const std::string& cell : cells_[row]) text += cell;
    return text;
  }

 private:
  static size_t scaled(double value, double low, double high, size_t places) {
    const double share = high > low ? (value - low) / (high - low) : 0;
    return static_cast<size_t>(
        std::clamp(std::llround(share * static_cast<double>(places - 1)), 0LL, static_cast<long long>(places) - 1));
  }
  double left_, right_, bottom_, top_;
  std::vector<std::vector<std::string>> cells_;
};

std::string bytes_axis(const Canvas& canvas, double left, double right) {
  std::string line(canvas.columns(), ' ');
  double unit = 1;
  while (right / unit >= 1024) unit *= 1024;
  for (const double tick : round_ticks(left / unit, right / unit, 4)) {
    const std::string text = human_bytes(std::llround(tick * unit));
    const size_t middle = canvas.column(tick * unit), half = text.size() / 2;
    const size_t at = std::min(middle - std::min(middle, half), canvas.columns() - text.size());
    const size_t before = at > 0 ? at - 1 : 0;
    if (line.find_first_not_of(' ', before) < at + text.size() + 1) continue;
    line.replace(at, text.size(), text);
  }
  return trimmed_line(std::string(kLabel + 2, ' ') + line);
}

}  // namespace

std::string draw_frontier(const Frontier& frontier, size_t width) {
  double left = 1e300, right = 0, top = 1;
  for (const FrontierPoint& point : frontier.points) {
    if (!point.figures.fits) continue;
    left = std::min(left, static_cast<double>(point.figures.peak_bytes));
    right = std::max(right, static_cast<double>(point.figures.peak_bytes));
    top = std::max(top, point.figures.ratio(frontier.plain_seconds));
  }
  if (right <= 0) return "";
  const double margin = std::max(1.0, (right - left) * 0.02);
  left = std::max(0.0, left - margin);
  right += margin;
  if (top <= 1) top = 1.1;
  Canvas canvas(std::max<size_t>(24, width - std::min(width, kLabel + 2)), left, right, 1, top);
  for (const bool planned : {true, false}) {
    for (const FrontierPoint& point : frontier.points) {
      if (point.planned != planned || !point.figures.fits) continue;
      canvas.put(static_cast<double>(point.figures.peak_bytes), point.figures.ratio(frontier.plain_seconds),
                 planned ? kPlan : std::string(1, point.mark));
    }
  }
  std::vector<std::string> labels(kRows);
  for (const double tick : round_ticks(1, top, 5)) labels[canvas.row(tick)] = fixed(tick, 2) + "x";
  std::string text;
  for (size_t row = 0; row < kRows; ++row) {
    const std::string& label = labels[row];
    text += trimmed_line(std::string(kLabel - std::min(kLabel, label.size()), ' ') + label +
                         (label.empty() ? " │" : " ┤") + canvas.line(row));
  }
  std::string axis = std::string(kLabel, ' ') + " └";
  for (size_t i = 0; i < canvas.columns(); ++i) axis += "─";
  return text + axis + "\n" + bytes_axis(canvas, left, right);
}

}  // namespace retrace::report
