// Who holds the bytes at the peak: owners, then the step's own tensors layer by layer.
import { Report, Scenario, eventKinds, owners } from "./data";
import { get, make, radioGroup } from "./dom";
import { block, bytes, percent, seconds } from "./format";

const longest = 10; // list

const meaning: Record<string, string> = {
  kept: "held for backward",
  rebuilt: "run again for backward",
  other: "in use, inputs, ...",
};

interface Part {
  name: string;
  bytes: number[]; // kept, rebuilt, other
}

export class PeakList {
  private scenario: Scenario;
  private byBlock = true;
  private all = false;

  constructor(private readonly report: Report) {
    this.scenario = report.choices[0];
    const show = radioGroup(get("grouping"), ["block", "layer"], (i) => {
      this.byBlock = i === 0;
      show(i);
      this.draw();
    });
    show(0);
  }

  show(scenario: Scenario) {
    this.scenario = scenario;
    this.draw();
  }

  private draw() {
    const { peak, curve } = this.scenario;
    const row = this.report.rows[curve.op[curve.peak]];
    const phase = curve.backward >= 0 && curve.time[curve.peak] >= curve.backward ? "backward" : "forward";
    const where = row ? `${row.name}${row.layer ? ` in ${row.layer}` : ""}` : "";
    const what = { op: `while ${where} runs`, save: `when a result of ${where} is saved`, release: `when the program lets go of a result of ${where}`, unpack: `when backward asks for a result of ${where}`, drop: `when backward is done with a result of ${where}`, end: "at its end" };
    const kind = eventKinds[curve.event[curve.peak]];
    const moment = row || kind === "end" ? what[kind] : `in ${phase}`;
    get("peak-where").textContent = curve.time.length === 0 ? "Nothing happened in this step." : `${bytes(peak)}, ${seconds(curve.time[curve.peak])} into the step, ${moment}.`;
    get("peak-owners").replaceChildren(
      ...owners
        .map((owner, i) => ({ owner, bytes: this.scenario.owners[i] }))
        .filter((part) => part.bytes > 0)
        .map((part) => bar(part.owner, meaning[part.owner] ?? "", [[part.owner, part.bytes]], part.bytes, peak)),
    );
    this.drawLayers();
  }

  private drawLayers() {
    const parts = this.parts();
    const most = parts.length > 0 ? total(parts[0]) : 1;
    const shown = this.all ? parts : parts.slice(0, longest);
    const items = shown.map((part) =>
      bar(part.name || "(no layer)", "", ["kept", "rebuilt", "other"].map((owner, i) => [owner, part.bytes[i]]), total(part), this.scenario.peak, most),
    );
    const rest = parts.slice(shown.length).reduce((sum, part) => sum + total(part), 0);
    if (parts.length > longest) {
      const more = make("button", {}, this.all ? "Show fewer" : `${parts.length - longest} more: ${bytes(rest)}`) as HTMLButtonElement;
      more.type = "button";
      more.addEventListener("click", () => {
        this.all = !this.all;
        this.draw();
      });
      items.push(make("li", { class: "more" }, more));
    }
    get("peak-layers-title").textContent = parts.length > 0 ? `Tensors of the step, by ${this.byBlock ? "block" : "layer"}` : "";
    get("peak-layers").replaceChildren(...items);
  }

  private parts(): Part[] {
    const found = new Map<string, Part>();
    for (const [text, ...amounts] of this.scenario.layers) {
      const layer = this.report.texts[text];
      const name = this.byBlock ? block(layer) : layer;
      const part = found.get(name) ?? { name, bytes: [0, 0, 0] };
      amounts.forEach((amount, i) => (part.bytes[i] += amount));
      found.set(name, part);
    }
    return [...found.values()].filter((part) => total(part) > 0).sort((a, b) => total(b) - total(a));
  }
}

function total(part: Part): number {
  return part.bytes.reduce((a, b) => a + b, 0);
}

// As long as its share of `whole`; the share that is told is that of `all`.
function bar(name: string, note: string, parts: [string, number][] | (string | number)[][], amount: number, all: number, whole = all): HTMLElement {
  const line = make("div", { class: "line" });
  for (const [owner, size] of parts as [string, number][]) {
    if (size <= 0) continue;
    const piece = make("i", { class: `fill ${owner}`, title: `${owner}: ${bytes(size)}` });
    piece.style.width = `${(100 * size) / whole}%`;
    line.append(piece);
  }
  const label = make("span", { class: "name", title: name }, name);
  if (note) label.append(" ", make("small", {}, note));
  return make("li", {}, label, make("span", { class: "amount" }, bytes(amount), " ", make("small", {}, percent(all > 0 ? amount / all : 0))), line);
}
