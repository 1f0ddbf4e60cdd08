// Memory against time: the planner's ladder of budgets, the bound below it, the policies, and where the slider stands.
import uPlot from "uplot";
import { Report, Scenario } from "./data";
import { get, make } from "./dom";
import { bytes, count, longer } from "./format";
import { roundSplits } from "./memory_chart";
import { colour } from "./theme";

const slowest = 1.5; // of the step's seconds: what is slower than that would hide all else, and is drawn at the top

export class FrontierChart {
  private readonly parent = get("frontier");
  private readonly tip = make("div", { class: "tip" });
  private plot?: uPlot;
  private rung = 0;
  private chosen?: Scenario;

  constructor(
    private readonly report: Report,
    private readonly choose: (scenario: Scenario) => void,
  ) {
    new ResizeObserver(() => this.plot && this.parent.clientWidth !== this.plot.width && this.plot.setSize(this.size())).observe(this.parent);
  }

  show(rung: number, chosen: Scenario) {
    this.rung = rung;
    this.chosen = chosen;
    if (this.plot) this.plot.redraw(false);
    else this.draw();
  }

  draw() {
    this.plot?.destroy();
    const { rungs, choices } = this.report;
    const all = [...rungs, ...choices];
    const peaks = [...new Set([...all.map((s) => s.peak), ...rungs.map((s) => s.budget!)])].sort((a, b) => a - b);
    const column = (scenarios: Scenario[], x: (s: Scenario) => number, y: (s: Scenario) => number) => {
      const found = new Map(scenarios.map((s) => [x(s), y(s)]));
      return peaks.map((peak) => found.get(peak) ?? null);
    };
    const least = peaks[0] ?? 0;
    const most = peaks[peaks.length - 1] ?? 1;
    const margin = Math.max((most - least) * 0.06, most * 0.01);
    const tallest = Math.max(0.02, ...all.map((s) => this.share(s)));
    const grid = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("muted"), grid, ticks: grid, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 22 };
    this.plot = new uPlot(
      {
        ...this.size(),
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false }, x: false, y: false },
        scales: { x: { time: false, range: [Math.max(0, least - margin), most + margin] }, y: { range: [-tallest * 0.04, tallest * 1.15] } },
        axes: [
          { ...axis, label: "peak", values: (_u, ticks) => ticks.map((b) => bytes(b)), space: 90, splits: (u, _i, min, max) => roundSplits(min, max, Math.max(2, Math.floor((u.width - 60) / 84))) },
          { ...axis, label: "longer step", values: (_u, ticks) => ticks.map((t) => `${(100 * t).toFixed(tallest < 0.05 ? 1 : 0)} %`), size: 60 },
        ],
        series: [
          {},
          { stroke: colour("muted"), width: 1, dash: [3, 4], spanGaps: true, points: { show: false } },
          { stroke: colour("accent"), width: 2, spanGaps: true, points: { show: true, size: 6, fill: colour("accent") } },
        ],
        hooks: { draw: [(u) => this.drawMarks(u)] },
      },
      [
        peaks,
        column(rungs, (s) => s.budget!, (s) => Math.min(slowest, this.report.seconds > 0 ? Math.max(0, s.bound ?? 0) / this.report.seconds : 0)),
        column(rungs, (s) => s.peak, (s) => this.share(s)),
      ] as uPlot.AlignedData,
      this.parent,
    );
    this.plot.over.addEventListener("click", (event) => {
      const nearest = this.nearest(event);
      if (nearest) this.choose(nearest);
    });
    this.plot.over.addEventListener("mousemove", (event) => this.tell(this.nearest(event)));
    this.plot.over.addEventListener("mouseleave", () => this.tell());
    this.plot.over.append(this.tip);
    this.tell();
    this.parent.setAttribute("aria-label", this.summary());
  }

  private share(s: Scenario): number {
    return this.report.seconds > 0 ? Math.min(slowest, s.extra / this.report.seconds) : 0;
  }

  private summary(): string {
    const told = [...this.report.choices, ...this.report.rungs].map((s) => `${s.name} ${bytes(s.peak)}, ${longer(s.extra, this.report.seconds)}`);
    return `Peak against the time of a step: ${told.join("; ")}`;
  }

  private size() {
    const width = this.parent.clientWidth;
    return { width, height: Math.max(260, Math.min(360, Math.round(width * 0.55))) };
  }

  // The nearest point, a policy's or a plan's, if there is one near.
  private nearest(event: MouseEvent): Scenario | undefined {
    const u = this.plot!;
    const box = u.over.getBoundingClientRect();
    const away = (s: Scenario) =>
      Math.hypot(u.valToPos(s.peak, "x") - (event.clientX - box.left), u.valToPos(this.share(s), "y") - (event.clientY - box.top));
    const all = [...this.report.choices, ...this.report.rungs];
    const nearest = all.reduce((a, b) => (away(b) < away(a) ? b : a));
    return away(nearest) < 40 ? nearest : undefined;
  }

  private tell(s?: Scenario) {
    const u = this.plot!;
    u.over.style.cursor = s ? "pointer" : "";
    this.tip.style.display = s ? "grid" : "none";
    if (!s) return;
    this.tip.replaceChildren(
      make("strong", {}, s.name),
      make("span", {}, `peak ${bytes(s.peak)}`),
      make("span", {}, longer(s.extra, this.report.seconds)),
      make("span", {}, `${count(s.rerun, "operator")} run again`),
    );
    const left = u.valToPos(s.peak, "x");
    const beside = left + 14 + this.tip.offsetWidth < u.over.clientWidth ? left + 14 : left - 14 - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, beside)}px`;
    this.tip.style.top = `${Math.max(0, u.valToPos(this.share(s), "y") - this.tip.offsetHeight - 12)}px`;
  }

  private drawMarks(u: uPlot) {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    const ring = (s: Scenario, stroke: string, radius: number) => {
      ctx.strokeStyle = stroke;
      ctx.lineWidth = 3 * ratio;
      ctx.beginPath();
      ctx.arc(u.valToPos(s.peak, "x", true), u.valToPos(this.share(s), "y", true), radius * ratio, 0, 2 * Math.PI);
      ctx.stroke();
    };
    this.drawPolicies(u, ctx, ratio);
    this.drawNames(u, ctx, ratio);
    if (this.report.rungs.length > 0) ring(this.report.rungs[this.rung], colour("accent"), 8);
    if (this.chosen && this.chosen.kind !== "budget") ring(this.chosen, colour("text"), 8);
    ctx.restore();
  }

  // Not a series of the plot: several policies may have the same peak.
  private drawPolicies(u: uPlot, ctx: CanvasRenderingContext2D, ratio: number) {
    ctx.strokeStyle = colour("other-mark");
    ctx.fillStyle = colour("panel");
    ctx.lineWidth = 2 * ratio;
    for (const s of this.report.choices) {
      ctx.beginPath();
      ctx.arc(u.valToPos(s.peak, "x", true), u.valToPos(this.share(s), "y", true), 4.5 * ratio, 0, 2 * Math.PI);
      ctx.fill();
      ctx.stroke();
    }
  }

  // Whether text of this place would cover the planner's line.
  private coversLine(u: uPlot, from: number, to: number, baseline: number, ratio: number): boolean {
    const line = this.report.rungs.map((s) => [u.valToPos(s.peak, "x", true), u.valToPos(this.share(s), "y", true)]);
    const covers = (y: number) => y > baseline - 13 * ratio && y < baseline + 6 * ratio;
    return line.some(([x1, y1], i) => {
      const [x2, y2] = line[Math.max(0, i - 1)];
      const [left, right] = [Math.max(from, Math.min(x1, x2)), Math.min(to, Math.max(x1, x2))];
      if (left > right) return false;
      const at = (x: number) => (x1 === x2 ? y1 : y1 + ((y2 - y1) * (x - x1)) / (x2 - x1));
      return covers(at(left)) || covers(at(right)) || covers((at(left) + at(right)) / 2);
    });
  }

  // Names that would cover one another are left out, but for the chosen one's. The planner's line stays free where it can.
  private drawNames(u: uPlot, ctx: CanvasRenderingContext2D, ratio: number) {
    const taken: { left: number; right: number; y: number }[] = [];
    const { left, width } = u.bbox;
    const byPriority = [...this.report.choices].sort((a, b) => Number(b === this.chosen) - Number(a === this.chosen));
    for (const s of byPriority) {
      const x = u.valToPos(s.peak, "x", true);
      const y = u.valToPos(this.share(s), "y", true);
      const size = ctx.measureText(s.name).width;
      const onLeft = x + 12 * ratio + size > left + width;
      const from = onLeft ? x - 12 * ratio - size : x + 12 * ratio;
      const free = [4, -12, 20, -26].map((dy) => y + dy * ratio).filter((at) => !taken.some((t) => from < t.right && from + size > t.left && Math.abs(at - t.y) < 14 * ratio));
      const place = free.find((at) => !this.coversLine(u, from, from + size, at, ratio)) ?? free[0];
      if (place === undefined) continue;
      taken.push({ left: from, right: from + size, y: place });
      ctx.textAlign = "left";
      ctx.lineWidth = 4 * ratio;
      ctx.strokeStyle = colour("panel");
      ctx.strokeText(s.name, from, place);
      ctx.fillStyle = colour("text");
      ctx.fillText(s.name, from, place);
    }
  }
}
