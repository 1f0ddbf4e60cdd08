"""compare.svg: memory against time, one panel per model, one line per system. Plain SVG: nothing needs installing."""

import html
import math

from points import frontier

PANEL_WIDTH, PANEL_HEIGHT = 470, 340
LEFT, TOP, GAP, RIGHT, BOTTOM = 64, 72, 76, 24, 56
LEGEND_COLUMNS = 3
TITLE = "Time of a training step (its plain run = 1) against the memory it takes"
FONT = "font-family='Helvetica, Arial, sans-serif'"
# Okabe and Ito's colours, which colour-blind readers tell apart. Retrace is blue, whichever LibTorch it is on.
RETRACE_COLOURS = ["#0072B2", "#56B4E9"]
PEER_COLOURS = {"checkpoint": ["#D55E00", "#E69F00"], "selective": ["#009E73"], "compile": ["#CC79A7"]}


def colours_of(systems):
    used, colours = {}, {}
    for system in systems:
        kind = "Retrace" if system.startswith("Retrace") else system.split()[-1]
        palette = RETRACE_COLOURS if kind == "Retrace" else PEER_COLOURS[kind]
        count = used.get(kind, 0)
        colours[system] = palette[count % len(palette)]
        used[kind] = count + 1
    return colours


def nice_step(span, about):
    """1, 2 or 5 times a power of ten, so that `span` has about that many of them."""
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)


class Axis:
    def __init__(self, low, high, begin, end, about):
        room = 0.04 * max(high - low, 1e-6)  # so that no point lies on the frame
        self.low, self.high = low - room, high + room
        self.begin, self.end = begin, end
        step = nice_step(self.high - self.low, about)
        self.ticks = [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def at(self, value):
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def text(x, y, content, size=12, anchor="start", colour="#333", extra=""):
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}' {extra}>"
        f"{html.escape(content)}</text>"
    )


def line(x1, y1, x2, y2, colour, width=1, extra=""):
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width}' {extra}/>"


class Labels:
    """Short texts next to points, where they cover neither points nor each other. Without room there is none."""

    def __init__(self, marks, right):
        self.taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in marks]
        self.right = right

    def place(self, x, y, content, colour):
        width, height = 5.6 * len(content), 10
        for dx, dy in ((8, -6), (8, 13), (-8 - width, -6), (-8 - width, 13), (-width / 2, -10), (-width / 2, 18)):
            box = (x + dx, y + dy - height, x + dx + width, y + dy + 1)
            if box[2] <= self.right and not any(self._overlap(box, other) for other in self.taken):
                self.taken.append(box)
                return [text(x + dx, y + dy, content, 10, colour=colour)]
        return []

    @staticmethod
    def _overlap(a, b):
        return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def frame(model, x_axis, y_axis):
    left, right, bottom, top = x_axis.begin, x_axis.end, y_axis.begin, y_axis.end
    out = [text((left + right) / 2, top - 12, model, 15, "middle", "#111", "font-weight='bold'")]
    for tick in y_axis.ticks:
        out.append(line(left, y_axis.at(tick), right, y_axis.at(tick), "#e6e6e6"))
        out.append(text(left - 8, y_axis.at(tick) + 4, f"{tick:.2f}".rstrip("0").rstrip("."), 11, "end"))
    for tick in x_axis.ticks:
        out.append(line(x_axis.at(tick), bottom, x_axis.at(tick), top, "#f0f0f0"))
        out.append(text(x_axis.at(tick), bottom + 17, f"{tick:g}", 11, "middle"))
    out.append(line(left, y_axis.at(1), right, y_axis.at(1), "#888", 1, "stroke-dasharray='4 3'"))
    out.append(line(left, bottom, right, bottom, "#333"))
    out.append(text((left + right) / 2, bottom + 38, "step peak, MiB", 12, "middle"))
    return out


def describe(point):
    return f"{point.system}, {point.setting}: {point.step_peak_mib:.1f} MiB, {point.ratio:.3f}"


def draw_system(points, x_axis, y_axis, colour, width):
    """The line through the points that are best for their memory; the others are there, but hollow."""
    best = frontier(points)
    path = " ".join(f"{x_axis.at(p.step_peak_mib):.1f},{y_axis.at(p.ratio):.1f}" for p in best)
    style = f"fill='none' stroke='{colour}' stroke-width='{width}' stroke-linejoin='round'"
    out = [f"<polyline points='{path}' {style}/>"]
    for point in points:
        fill = colour if point in best else "white"
        x, y = x_axis.at(point.step_peak_mib), y_axis.at(point.ratio)
        out.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.6' fill='{fill}' stroke='{colour}' stroke-width='1.4'>"
            f"<title>{html.escape(describe(point))}</title></circle>"
        )
    return out


def panel(model, points, colours, left, top):
    x_axis = Axis(
        min(p.step_peak_mib for p in points), max(p.step_peak_mib for p in points), left, left + PANEL_WIDTH, about=8
    )
    lowest, highest = min(p.ratio for p in points), max(p.ratio for p in points)
    y_axis = Axis(min(lowest, 1.0), max(highest, 1.1), top + PANEL_HEIGHT, top, about=6)
    out = frame(model, x_axis, y_axis)
    # Retrace last, so that its line is on top.
    for system in sorted(colours, key=lambda s: s.startswith("Retrace")):
        own = [p for p in points if p.system == system]
        out += draw_system(own, x_axis, y_axis, colours[system], 2.4 if system.startswith("Retrace") else 1.6)
    place = lambda p: (x_axis.at(p.step_peak_mib), y_axis.at(p.ratio))
    labels = Labels([place(p) for p in points], x_axis.end)
    named = set()
    for point in points:
        # On two versions of PyTorch a setting is nearly at the same place: once is enough.
        if not point.is_retrace and not point.is_plain and point.setting not in named:
            named.add(point.setting)
            out += labels.place(*place(point), point.setting, colours[point.system])
    return out


def legend(colours):
    out = []
    for i, (system, colour) in enumerate(colours.items()):
        x, y = LEFT + 340 * (i % LEGEND_COLUMNS), 44 + 18 * (i // LEGEND_COLUMNS)
        out.append(line(x, y - 4, x + 22, y - 4, colour, 2.4))
        out.append(f"<circle cx='{x + 11}' cy='{y - 4}' r='3.6' fill='{colour}'/>")
        out.append(text(x + 30, y, system))
    return out


def svg(points, subtitle):
    points = [p for p in points if p.ratio is not None]
    # Retrace first in the legend, then by name.
    systems = sorted({p.system for p in points}, key=lambda s: (not s.startswith("Retrace"), s))
    colours = colours_of(systems)
    models = list(dict.fromkeys(p.model for p in points))
    width = LEFT + len(models) * (PANEL_WIDTH + GAP) - GAP + RIGHT
    top = TOP + 18 * math.ceil(len(systems) / LEGEND_COLUMNS)
    height = top + PANEL_HEIGHT + BOTTOM + 14
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' {FONT}>",
        f"<rect width='{width}' height='{height}' fill='white'/>",  # readable on a dark page too
        text(LEFT, 22, TITLE, 15, extra="font-weight='bold'"),
        *legend(colours),
    ]
    for i, model in enumerate(models):
        out += panel(model, [p for p in points if p.model == model], colours, LEFT + i * (PANEL_WIDTH + GAP), top)
    out.append(text(LEFT, height - 8, subtitle, 10, colour="#777"))
    return "\n".join(out + ["</svg>"]) + "\n"
