// The report: puts the parts together. One scenario is chosen at a time, by the switch, the slider or the frontier.
import { Report, Scenario, owners, readReport } from "./data";
import { definition, get, make, radioGroup } from "./dom";
import { budgetText, bytes, count, longer, percent, seconds } from "./format";
import { FrontierChart } from "./frontier_chart";
import { MemoryChart } from "./memory_chart";
import { PeakList } from "./peak";
import { TapeTable } from "./tape_table";
import { setUpTheme } from "./theme";

const legend: Record<string, string> = {
  weights: "weights",
  gradients: "gradients",
  kept: "kept for backward",
  rebuilt: "rebuilt in backward",
  other: "other: in use, inputs, optimizer state",
};

// The line that makes a program do it.
function codeFor(scenario: Scenario): string {
  const [stem, argument = ""] = scenario.name.split(":");
  if (scenario.kind !== "policy") return `retrace::Session session(retrace::budget("${budgetText(scenario.budget ?? scenario.peak)}"));`;
  if (stem === "full") return "// the program as it is";
  return `retrace::Session session(retrace::${stem}(${argument}));`;
}

class Page {
  private readonly plain: Scenario;
  private readonly memory: MemoryChart;
  private readonly frontier: FrontierChart;
  private readonly peak: PeakList;
  private readonly table: TapeTable;
  private readonly slider = get<HTMLInputElement>("budget");
  private readonly showChoice: (index: number) => void;
  private chosen: Scenario;

  constructor(private readonly report: Report) {
    this.plain = this.chosen = report.choices[0];
    this.memory = new MemoryChart(report);
    this.frontier = new FrontierChart(report, (scenario) => this.choose(scenario));
    this.peak = new PeakList(report);
    this.table = new TapeTable(report);
    const { choices, rungs } = report;
    const names = [...choices.map((s) => s.name), ...(rungs.length > 0 ? ["budget"] : [])];
    this.showChoice = radioGroup(get("switch"), names, (i) => this.choose(choices[i] ?? rungs[this.rung()]));
    this.slider.max = String(Math.max(0, rungs.length - 1));
    this.slider.value = String(this.halfRung());
    this.slider.disabled = rungs.length === 0;
    this.slider.addEventListener("input", () => this.choose(rungs[this.rung()]));
    get("legend").append(...owners.map((owner) => make("li", {}, make("i", { class: `swatch ${owner}` }), legend[owner])));
    get("copy").addEventListener("click", () => this.copy());
    this.tellAnswer();
    this.choose(this.plain);
  }

  redraw() {
    this.memory.draw();
    this.frontier.draw();
  }

  private rung(): number {
    return Number(this.slider.value);
  }

  // The largest budget within half of the plain peak, or else the smallest.
  private halfRung(): number {
    const { rungs } = this.report;
    const above = rungs.findIndex((s) => s.budget! > this.plain.peak / 2);
    return above < 0 ? Math.max(0, rungs.length - 1) : Math.max(0, above - 1);
  }

  private choose(scenario: Scenario) {
    this.chosen = scenario;
    const rung = this.report.rungs.indexOf(scenario);
    if (rung >= 0) this.slider.value = String(rung);
    this.showChoice(rung >= 0 ? this.report.choices.length : this.report.choices.indexOf(scenario));
    this.tellFigures();
    this.tellBudget();
    this.memory.show(scenario);
    this.peak.show(scenario);
    this.table.show(scenario);
    this.frontier.show(this.rung(), scenario);
  }

  private tellAnswer() {
    const { report, plain } = this;
    const largest = owners.map((owner, i) => ({ owner, bytes: plain.owners[i] })).reduce((a, b) => (b.bytes > a.bytes ? b : a));
    const fills = { kept: "activations kept for backward", weights: "weights", gradients: "gradients", rebuilt: "rebuilt activations", other: "tensors in use, inputs and optimizer state" };
    get("answer").append(
      "One step peaks at ",
      make("b", {}, bytes(plain.peak)),
      "; ",
      make("b", {}, percent(plain.peak > 0 ? largest.bytes / plain.peak : 0)),
      ` of that is ${fills[largest.owner]}.`,
    );
    const offer = report.rungs[this.halfRung()];
    if (offer && offer.peak < plain.peak) {
      get("offer").append(
        "Within a budget of ",
        make("b", {}, bytes(offer.budget!)),
        `, ${percent(offer.budget! / plain.peak)} of it, the same step takes `,
        make("b", {}, longer(offer.extra, report.seconds)),
        " and computes the same gradients to the last bit.",
      );
    }
    get("subject").textContent = report.title;
    document.title = `${report.title}: peak ${bytes(plain.peak)} · Retrace`;
    get("made").textContent =
      `${count(report.rows.length, "operator")} and ${count(report.values, "value")} in a step of ${seconds(report.seconds)}. ` +
      `Curves and peaks other than the plain ones are predicted from the tape. Written by retrace ${report.version}; nothing on this page is sent anywhere.`;
  }

  private tellFigures() {
    const { chosen, plain, report } = this;
    const less = plain.peak > 0 ? 1 - chosen.peak / plain.peak : 0;
    const [keptValues, keptBytes] = chosen.kept;
    const [rebuiltValues, rebuiltBytes] = chosen.rebuilt;
    get("figures").replaceChildren(
      definition("peak", bytes(chosen.peak), chosen === plain ? "" : less > 0 ? `${percent(less)} less` : "no less"),
      definition("average", bytes(chosen.average)),
      definition("step", seconds(report.seconds + chosen.extra), chosen.extra > 0 ? longer(chosen.extra, report.seconds) : ""),
      definition("kept", bytes(keptBytes), count(keptValues, "value")),
      definition("rebuilt", bytes(rebuiltBytes), count(rebuiltValues, "value")),
      definition("operators run again", chosen.rerun.toLocaleString("en-US")),
    );
    get("code").textContent = codeFor(chosen);
    get("copy").hidden = chosen === plain;
    get("copy").textContent = "Copy";
  }

  private tellBudget() {
    const { rungs } = this.report;
    const rung = rungs[this.rung()];
    if (!rung) return;
    const share = percent(this.plain.peak > 0 ? rung.budget! / this.plain.peak : 1);
    get("budget-value").textContent = `${bytes(rung.budget!)}, ${share} of plain`;
    this.slider.setAttribute("aria-valuetext", `${bytes(rung.budget!)}, ${share} of the plain peak, ${longer(rung.extra, this.report.seconds)}`);
    get("budget-least").textContent = bytes(rungs[0].budget!);
    get("budget-most").textContent = bytes(rungs[rungs.length - 1].budget!);
    const [encodedValues, encodedBytes, heldBytes] = rung.encoded;
    const best = Math.max(0, rung.bound ?? 0);
    get("budget-figures").replaceChildren(
      definition("predicted peak", bytes(rung.peak)),
      definition("extra time", seconds(rung.extra), `${longer(rung.extra, this.report.seconds)}; proven: no plan takes less than ${seconds(best)}`),
      definition("kept", bytes(rung.kept[1]), count(rung.kept[0], "value")),
      definition("encoded", bytes(encodedBytes), encodedValues > 0 ? `${count(encodedValues, "value")}, held in ${bytes(heldBytes)}${rung.lossy > 0 ? `, ${rung.lossy} with loss` : ""}` : "0 values"),
      definition("rebuilt", bytes(rung.rebuilt[1]), `${count(rung.rebuilt[0], "value")}, ${count(rung.rerun, "operator")} run again`),
    );
    const all = rung.kept[1] + encodedBytes + rung.rebuilt[1];
    get("budget-bar").replaceChildren(
      ...([["kept", rung.kept[1]], ["encoded", encodedBytes], ["rebuilt", rung.rebuilt[1]]] as [string, number][]).map(([name, size]) => {
        const piece = make("i", { class: `fill ${name}`, title: `${name}: ${bytes(size)}` });
        piece.style.width = `${all > 0 ? (100 * size) / all : 0}%`;
        return piece;
      }),
    );
  }

  private copy() {
    const text = get("code").textContent ?? "";
    // Where the clipboard is out of reach the line is at least selected.
    const select = () => getSelection()?.selectAllChildren(get("code"));
    const done = () => (get("copy").textContent = "Copied");
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
    else select();
  }
}

const report = readReport(get("data").textContent ?? "");
const page = new Page(report);
setUpTheme(() => page.redraw());
