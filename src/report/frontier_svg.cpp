// The frontier as a picture. Colours follow the reader's preference for light or dark.
#include <algorithm>
#include <array>

#include "report/frontier.h"
#include "report/table.h"

namespace retrace::report {
namespace {

constexpr double kWidth = 760, kHeight = 460;
constexpr double kLeft = 88, kRight = 30, kTop = 56, kBottom = 62;
constexpr double kLetter = 6.6, kLine = 15;  // of a label: about how wide and high a character is

constexpr const char* kStyle = R"(<style>
  svg { --paper: #ffffff; --ink: #1f2328; --soft: #656d76; --grid: #d8dee4; --plan: #0969da; --policy: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --grid: #30363d; --plan: #4493f8; --policy: #f0883e; }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink); }
  .paper { fill: var(--paper); }
  .title { font-size: 16px; font-weight: 600; }
  .soft { fill: var(--soft); }
  .grid { stroke: var(--grid); stroke-width: 1; }
  .plan { stroke: var(--plan); stroke-width: 2; fill: none; stroke-linejoin: round; }
  .plan-point { fill: var(--plan); stroke: var(--paper); stroke-width: 1.5; }
  .policy-point { fill: var(--policy); stroke: var(--paper); stroke-width: 1.5; }
  .lead { stroke: var(--soft); stroke-width: 0.75; }
</style>
)";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

std::string number(double value) {
  std::string text = fixed(value, 1);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string text_at(double x, double y, const std::string& text, const char* attributes = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" class=\"" + style + "\"/>\n";
}

struct Unit {
  double bytes;
  const char* name;
};

Unit unit_of(double most) {
  constexpr std::array<Unit, 5> kUnits{
      {{1, "bytes"}, {1024, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}, {1LL << 40, "TiB"}}};
  Unit best = kUnits[0];
  for (const Unit& unit : kUnits) {
    if (most >= 2 * unit.bytes) best = unit;
  }
  return best;
}

struct Box {
  double x, y, width, height;
  bool meets(const Box& o) const {
    return x < o.x + o.width && o.x < x + width && y < o.y + o.height && o.y < y + height;
  }
};

class Picture {
 public:
  Picture(const Frontier& frontier, std::string title) : frontier_(frontier), title_(std::move(title)) {
    double most = 1;
    for (const FrontierPoint& point : frontier.points) {
      if (!point.figures.fits) continue;
      most = std::max(most, static_cast<double>(point.figures.peak_bytes));
      most_ratio_ = std::max(most_ratio_, point.figures.ratio(frontier.plain_seconds));
    }
    unit_ = unit_of(most);
    most_ = most / unit_.bytes * 1.06;
    most_ratio_ += std::max(0.02, (most_ratio_ - 1) * 0.12);
  }

  std::string draw() {
    const std::string name = escaped(title_);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
           "\" role=\"img\" aria-label=\"" + name + "\">\n<title>" + name + "</title>\n" + kStyle +
           "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + axes() + plan_line() + points() + "</svg>\n";
  }

 private:
  double x(double in_units) const { return kLeft + in_units / most_ * (kWidth - kLeft - kRight); }
  double y(double ratio) const {
    return kHeight - kBottom - (ratio - 1) / (most_ratio_ - 1) * (kHeight - kTop - kBottom);
  }
  double x_of(const FrontierPoint& p) const { return x(static_cast<double>(p.figures.peak_bytes) / unit_.bytes); }
  double y_of(const FrontierPoint& p) const { return y(p.figures.ratio(frontier_.plain_seconds)); }

  std::string axes() const {
    const double bottom = kHeight - kBottom;
    std::string all = text_at(kLeft, 26, title_, "class=\"title\"");
    for (const double tick : round_ticks(0, most_, 6)) {
      all += line(x(tick), kTop, x(tick), bottom, "grid");
      all += text_at(x(tick), bottom + 20, number(tick), "text-anchor=\"middle\" class=\"soft\"");
    }
    for (const double tick : round_ticks(1, most_ratio_, 5)) {
      all += line(kLeft, y(tick), kWidth - kRight, y(tick), "grid");
      all += text_at(kLeft - 8, y(tick) + 4, fixed(tick, 2) + "×", "text-anchor=\"end\" class=\"soft\"");
    }
    all += text_at((kLeft + kWidth - kRight) / 2, kHeight - 14, std::string("peak memory of the step, ") + unit_.name,
                   "text-anchor=\"middle\"");
    const std::string turned = "transform=\"rotate(-90)\" text-anchor=\"middle\"";
    all += text_at(-(kTop + bottom) / 2, 18, "step time, full storage = 1", turned.c_str());
    return all;
  }

  std::string plan_line() const {
    std::string path;
    for (const FrontierPoint& p : frontier_.points) {
      if (!p.planned) continue;
      path += (path.empty() ? "M" : " L") + number(x_of(p)) + " " + number(y_of(p));
    }
    return path.empty() ? "" : "<path class=\"plan\" d=\"" + path + "\"/>\n";
  }

  std::string circle(const FrontierPoint& p) const {
    const std::string name = p.planned ? "budget " + human_bytes(*p.figures.budget_bytes) : p.figures.policy;
    const std::string tip = name + ": " + human_bytes(p.figures.peak_bytes) + ", " +
                            fixed(p.figures.ratio(frontier_.plain_seconds), 3) + "×";
    return "<circle class=\"" + std::string(p.planned ? "plan-point" : "policy-point") + "\" cx=\"" + number(x_of(p)) +
           "\" cy=\"" + number(y_of(p)) + "\" r=\"" + (p.planned ? "4" : "5") + "\"><title>" + escaped(tip) +
           "</title></circle>\n";
  }

  std::string points() {
    std::string all;
    for (const FrontierPoint& p : frontier_.points) {
      if (p.figures.fits) taken_.push_back({x_of(p) - 5, y_of(p) - 5, 10, 10});
    }
    const FrontierPoint* first_plan = nullptr;
    for (const bool planned : {true, false}) {
      for (const FrontierPoint& p : frontier_.points) {
        if (!p.figures.fits || p.planned != planned) continue;
        all += circle(p);
        if (!planned) all += label(x_of(p), y_of(p), p.figures.policy);
        if (planned && first_plan == nullptr) first_plan = &p;
      }
    }
    if (first_plan != nullptr) all += label(x_of(*first_plan), y_of(*first_plan), "planned, by budget");
    return all;
  }

  // Where it meets no point and no other label, near by first. A heuristic: with very many points labels may meet.
  std::string label(double at_x, double at_y, const std::string& text) {
    const double wide = kLetter * static_cast<double>(display_width(text)) + 4;
    Box best{at_x + 9, at_y - kLine / 2, wide, kLine};
    bool found = false;
    double lead = 0;
    for (const double away : {0.0, 14.0, 28.0, 42.0}) {
      for (const Box& box :
           {Box{at_x + 9, at_y - kLine / 2 - away, wide, kLine}, Box{at_x + 9, at_y - kLine / 2 + away, wide, kLine},
            Box{at_x - 9 - wide, at_y - kLine / 2 - away, wide, kLine},
            Box{at_x - 9 - wide, at_y - kLine / 2 + away, wide, kLine},
            Box{at_x - wide / 2, at_y - 9 - kLine - away, wide, kLine}}) {
        const bool inside = box.x >= kLeft && box.x + box.width <= kWidth - 4 && box.y >= kTop - 20 &&
                            box.y + box.height <= kHeight - kBottom;
        if (found || !inside || std::any_of(taken_.begin(), taken_.end(), [&](const Box& b) { return b.meets(box); }))
          continue;
        best = box, found = true, lead = away;
      }
    }
    taken_.push_back(best);
    const std::string pointer =
        lead > 14 ? line(at_x, at_y, best.x < at_x ? best.x + best.width : best.x, best.y + kLine / 2, "lead") : "";
    return pointer + text_at(best.x + 2, best.y + kLine - 4, text);
  }

  const Frontier& frontier_;
  const std::string title_;
  Unit unit_{1, ""};
  double most_ = 1, most_ratio_ = 1;
  std::vector<Box> taken_;
};

}  // namespace

std::string frontier_svg(const Frontier& frontier, const std::string& title) { return Picture(frontier, title).draw(); }

}  // namespace retrace::report
