// Memory over the step: stacked areas by owner, the peak marked, the plain program as an outline behind a policy.
import uPlot from "uplot";
import { Curve, Owner, Report, Scenario, eventKinds, owners } from "./data";
import { get, make } from "./dom";
import { bytes, seconds } from "./format";
import { colour } from "./theme";

// From the top of the stack: each area is drawn down to zero and covered by the next.
const stack = [...owners].reverse();

function stacked(curve: Curve): number[][] {
  const times = [...curve.time, curve.end].map((t) => t / 1e9);
  const columns = stack.map((_, from) => {
    const sum = curve.time.map((_, i) => stack.slice(from).reduce((s, owner) => s + curve[owner][i], 0));
    return [...sum, sum[sum.length - 1]];
  });
  return [times, ...columns];
}

const happenings: Record<(typeof eventKinds)[number], string> = {
  op: "runs",
  save: "is saved for backward",
  release: "is let go of by the program",
  unpack: "is asked for by backward",
  drop: "is done with",
  end: "the step ends",
};

export class MemoryChart {
  private readonly parent = get("memory");
  private readonly reading = get("reading");
  private readonly tip = make("div", { class: "tip" });
  private readonly plain: Scenario;
  private scenario: Scenario;
  private plot?: uPlot;
  private at = -1; // a moment of the curve, by keyboard

  constructor(private readonly report: Report) {
    this.plain = this.scenario = report.choices[0];
    this.parent.addEventListener("keydown", (event) => this.onKey(event));
    this.parent.addEventListener("blur", () => this.hide());
    new ResizeObserver(() => this.resize()).observe(this.parent);
  }

  show(scenario: Scenario) {
    this.scenario = scenario;
    this.draw();
  }

  draw() {
    this.plot?.destroy();
    const { curve } = this.scenario;
    const most = Math.max(this.plain.peak, this.scenario.peak);
    const end = Math.max(this.plain.curve.end, curve.end) / 1e9;
    const text = colour("muted");
    const grid = { stroke: colour("line"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const options: uPlot.Options = {
      ...this.size(),
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { show: false }, y: false },
      scales: { x: { time: false, range: (_u, min, max) => (min === max ? [0, end] : [min, this.zoomed(min, max) ? max : end]) }, y: { range: [0, most * 1.12] } },
      axes: [
        { ...axis, values: (_u, ticks) => ticks.map((t) => seconds(t * 1e9)), space: 80 },
        { ...axis, values: (_u, ticks) => ticks.map((b) => bytes(b)), size: 76, splits: (_u, _i, min, max) => roundSplits(min, max, 8) },
      ],
      series: [
        {},
        ...stack.map((owner) => ({
          stroke: colour(owner),
          fill: colour(owner),
          width: 0,
          points: { show: false },
          paths: uPlot.paths.stepped!({ align: 1 }),
        })),
      ],
      hooks: { draw: [(u) => this.drawMarks(u)], setCursor: [(u) => this.onCursor(u)] },
    };
    this.plot = new uPlot(options, stacked(curve) as uPlot.AlignedData, this.parent);
    this.plot.over.append(this.tip);
    this.plot.over.addEventListener("mouseleave", () => this.hide());
    this.hide();
    this.parent.setAttribute(
      "aria-label",
      `Memory over the step, ${this.scenario.name}: peak ${bytes(this.scenario.peak)}, average ${bytes(this.scenario.average)}`,
    );
  }

  private size() {
    const width = this.parent.clientWidth;
    return { width, height: Math.max(240, Math.min(440, Math.round(width * 0.58))) };
  }

  private resize() {
    if (this.plot && this.parent.clientWidth !== this.plot.width) this.plot.setSize(this.size());
  }

  private zoomed(min: number, max: number): boolean {
    const { curve } = this.scenario;
    return min > 0 || max < (curve.end / 1e9) * 0.999;
  }

  private drawMarks(u: uPlot) {
    const { ctx } = u;
    const { curve } = this.scenario;
    const ratio = devicePixelRatio;
    const x = (nanoseconds: number) => u.valToPos(nanoseconds / 1e9, "x", true);
    const y = (amount: number) => u.valToPos(amount, "y", true);
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = ratio;
    if (this.scenario !== this.plain) this.drawOutline(ctx, x, y);
    if (curve.backward >= 0) {
      const turn = x(curve.backward);
      ctx.strokeStyle = colour("muted");
      ctx.setLineDash([2 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(turn, top);
      ctx.lineTo(turn, top + height);
      ctx.stroke();
      // On a phone the peak's name is up there too, and says more.
      if (y(this.scenario.peak) - top > 30 * ratio) {
        ctx.fillStyle = colour("muted");
        ctx.textAlign = "right";
        ctx.fillText("forward ", turn, top + 14 * ratio);
        ctx.textAlign = "left";
        ctx.fillText(" backward", turn, top + 14 * ratio);
      }
    }
    this.drawPeak(ctx, x(curve.time[curve.peak]), y(this.scenario.peak), left + width / 2, ratio);
    ctx.restore();
  }

  private drawOutline(ctx: CanvasRenderingContext2D, x: (t: number) => number, y: (b: number) => number) {
    const { curve } = this.plain;
    ctx.strokeStyle = colour("text");
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    curve.time.forEach((t, i) => {
      if (i > 0) ctx.lineTo(x(t), y(curve.total[i - 1]));
      ctx.lineTo(x(t), y(curve.total[i]));
    });
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour("muted");
    ctx.textAlign = "left";
    if (this.parent.clientWidth > 480) ctx.fillText("full", x(curve.time[curve.peak]) + 10 * devicePixelRatio, y(this.plain.peak) - 6 * devicePixelRatio);
  }

  private drawPeak(ctx: CanvasRenderingContext2D, x: number, y: number, middle: number, ratio: number) {
    ctx.setLineDash([]);
    ctx.fillStyle = colour("accent");
    ctx.strokeStyle = colour("panel");
    ctx.lineWidth = 2 * ratio;
    ctx.beginPath();
    ctx.arc(x, y, 5 * ratio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
    ctx.font = `600 ${13 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = x > middle ? "right" : "left";
    const label = `peak ${bytes(this.scenario.peak)}`;
    const at = x + (x > middle ? -10 : 10) * ratio;
    ctx.lineWidth = 4 * ratio;
    ctx.strokeText(label, at, y - 6 * ratio);
    ctx.fillStyle = colour("text");
    ctx.fillText(label, at, y - 6 * ratio);
  }

  // The operator at a moment, what happens to it and what is live.
  private describe(i: number): { title: string; lines: string[] } {
    const { curve } = this.scenario;
    const row = this.report.rows[curve.op[i]];
    const kind = eventKinds[curve.event[i]];
    const lines: string[] = [];
    if (row && row.layer) lines.push(row.layer);
    if (row) lines.push([row.shape, row.bytes > 0 ? bytes(row.bytes) : ""].filter(Boolean).join("  "));
    return { title: row ? `${row.name} ${happenings[kind]}` : kind === "end" ? happenings.end : `A value ${happenings[kind]}`, lines };
  }

  private onCursor(u: uPlot) {
    const i = u.cursor.idx;
    if (i == null || u.cursor.left == null || u.cursor.left < 0) return this.hide();
    this.tell(u, Math.min(i, this.scenario.curve.time.length - 1));
  }

  private tell(u: uPlot, i: number) {
    this.at = i;
    const { curve } = this.scenario;
    const { title, lines } = this.describe(i);
    const parts = ([...stack] as Owner[])
      .filter((owner) => curve[owner][i] > 0)
      .map((owner) => {
        const line = make("span", { class: "part" }, make("i", { class: `swatch ${owner}` }), `${owner} `, make("b", {}, bytes(curve[owner][i])));
        return line;
      });
    this.tip.replaceChildren(
      make("strong", {}, title),
      ...lines.filter(Boolean).map((line) => make("span", {}, line)),
      make("span", { class: "live" }, `${bytes(curve.total[i])} live at ${seconds(curve.time[i])}`),
      ...parts,
    );
    this.tip.style.display = "grid";
    const left = u.valToPos(curve.time[i] / 1e9, "x");
    const wide = u.over.clientWidth;
    const beside = left + 14 + this.tip.offsetWidth < wide ? left + 14 : left - 14 - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(beside, wide - this.tip.offsetWidth))}px`;
    this.tip.style.top = "8px";
    this.reading.textContent = [title, ...lines, `${bytes(curve.total[i])} live at ${seconds(curve.time[i])}`].join(", ");
  }

  private hide() {
    this.tip.style.display = "none";
  }

  private onKey(event: KeyboardEvent) {
    const { curve } = this.scenario;
    const last = curve.time.length - 1;
    const now = this.at < 0 ? curve.peak : this.at;
    const step = event.shiftKey ? Math.ceil(last / 20) : 1;
    const next = { ArrowRight: now + step, ArrowLeft: now - step, Home: 0, End: last, p: curve.peak, P: curve.peak }[event.key];
    if (next === undefined || !this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const i = Math.max(0, Math.min(last, next));
    this.plot.setCursor({ left: this.plot.valToPos(curve.time[i] / 1e9, "x"), top: 10 }, false);
    this.tell(this.plot, i);
  }
}

// Round amounts in binary units, at most so many.
export function roundSplits(min: number, max: number, most: number): number[] {
  let step = 1;
  while ((max - min) / step > most) step *= 2;
  const splits = [];
  for (let b = Math.ceil(min / step) * step; b <= max; b += step) splits.push(b);
  return splits;
}
