// The tape as a table of as many rows as fit: sorted, filtered, and drawn where it is looked at.
import { Report, Row, Scenario, fates } from "./data";
import { get, make } from "./dom";
import { bytes, count, seconds } from "./format";

interface Column {
  key: string;
  title: string;
  hint: string;
  text: (row: Row) => string;
  order: (a: Row, b: Row) => number; // the more interesting first
}

const by = (number: (row: Row) => number) => (a: Row, b: Row) => number(b) - number(a);
const words = (text: (row: Row) => string) => (a: Row, b: Row) => text(a).localeCompare(text(b), "en", { numeric: true });

// Saved bytes per second of rebuilding: what a forgetful plan looks for.
const worth = (row: Row) => (row.saved > 0 && row.rebuild >= 0 ? row.saved / Math.max(row.rebuild, 1) : 0);

const spare = 8; // rows drawn beyond what can be seen

export class TapeTable {
  private readonly parent = get("table");
  private readonly space = make("div", { class: "space" });
  private readonly columns: Column[];
  private scenario: Scenario;
  private shown: Row[];
  private sorted = 0;
  private reverse = false;
  private filter = "";
  private fate = "";
  private drawn = "";

  constructor(private readonly report: Report) {
    this.scenario = report.choices[0];
    this.shown = report.rows;
    this.columns = [
      { key: "index", title: "#", hint: "In the order they ran", text: (r) => String(r.index), order: (a, b) => a.index - b.index },
      { key: "name", title: "operator", hint: "What ran", text: (r) => r.name, order: words((r) => r.name) },
      { key: "layer", title: "layer", hint: "Whose forward ran it", text: (r) => r.layer, order: words((r) => r.layer) },
      { key: "shape", title: "shape", hint: "Of its first result", text: (r) => r.shape, order: words((r) => r.shape) },
      { key: "bytes", title: "bytes", hint: "Of the storages it made; a view makes none", text: (r) => (r.bytes > 0 ? bytes(r.bytes) : ""), order: by((r) => r.bytes) },
      { key: "saved", title: "saved", hint: "Of its results, what autograd saved for backward", text: (r) => (r.saved > 0 ? bytes(r.saved) : ""), order: by((r) => r.saved) },
      { key: "waits", title: "waits", hint: "From when it ran until backward asks for it, in the plain step", text: (r) => (r.waits >= 0 ? seconds(r.waits) : ""), order: by((r) => r.waits) },
      { key: "rebuild", title: "to rebuild", hint: "To have what was saved again, whatever else was saved being there", text: (r) => (r.rebuild >= 0 ? seconds(r.rebuild) : ""), order: by((r) => r.rebuild) },
      { key: "worth", title: "worth", hint: "Saved bytes per second of rebuilding: large is worth forgetting", text: (r) => (worth(r) > 0 ? `${bytes(worth(r) * 1e9)}/s` : ""), order: by(worth) },
      { key: "fate", title: "becomes", hint: "What becomes of what was saved, as the step is run above", text: (r) => this.fateOf(r), order: (a, b) => this.scenario.fates[b.index] - this.scenario.fates[a.index] },
    ];
    this.setUp();
    this.update();
  }

  show(scenario: Scenario) {
    this.scenario = scenario;
    get("tape-hint").textContent = `“becomes” is told for ${scenario.name}.`;
    this.update();
  }

  private fateOf(row: Row): string {
    return fates[this.scenario.fates[row.index]];
  }

  private setUp() {
    this.parent.setAttribute("role", "table");
    this.parent.tabIndex = 0;
    this.parent.setAttribute("aria-label", "Operators of the tape; scroll with the arrow keys");
    const head = make("div", { class: "row head" });
    head.setAttribute("role", "row");
    head.append(...this.columns.map((column, i) => this.heading(column, i)));
    this.space.setAttribute("role", "rowgroup");
    this.parent.append(head, this.space);
    this.parent.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.redraw()).observe(this.parent);

    const filter = get<HTMLInputElement>("filter");
    filter.addEventListener("input", () => {
      this.filter = filter.value.trim().toLowerCase();
      this.update();
    });
    const fate = get<HTMLSelectElement>("fate");
    fate.append(...["", ...fates.slice(1)].map((f) => new Option(f === "" ? "all operators" : f, f)));
    fate.append(new Option("saved", "saved"));
    fate.addEventListener("change", () => {
      this.fate = fate.value;
      this.update();
    });
    const sort = get<HTMLSelectElement>("sort");
    sort.append(...this.columns.map((c, i) => new Option(`sort by ${c.key === "index" ? "order" : c.title}`, String(i))));
    sort.addEventListener("change", () => this.sortBy(Number(sort.value), false));
  }

  private heading(column: Column, i: number): HTMLElement {
    const button = make("button", { title: column.hint }, column.title) as HTMLButtonElement;
    button.type = "button";
    button.addEventListener("click", () => this.sortBy(i, this.sorted === i && !this.reverse));
    const cell = make("div", { class: column.key }, button);
    cell.setAttribute("role", "columnheader");
    return cell;
  }

  private sortBy(column: number, reverse: boolean) {
    this.sorted = column;
    this.reverse = reverse;
    get<HTMLSelectElement>("sort").value = String(column);
    this.update();
    this.parent.scrollTop = 0;
  }

  private update() {
    const parts = this.filter.split(/\s+/).filter(Boolean);
    const wanted = (row: Row) => {
      if (this.fate === "saved" ? row.saved === 0 : this.fate !== "" && this.fateOf(row) !== this.fate) return false;
      if (parts.length === 0) return true;
      const text = `${row.name} ${row.layer} ${row.shape}`.toLowerCase();
      return parts.every((part) => text.includes(part));
    };
    const { order } = this.columns[this.sorted];
    this.shown = this.report.rows.filter(wanted).sort(order);
    if (this.reverse) this.shown.reverse();
    this.parent.querySelectorAll(".head > div").forEach((cell, i) => {
      if (i === this.sorted) cell.setAttribute("aria-sort", this.reverse ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const saved = this.shown.reduce((sum, row) => sum + row.saved, 0);
    get("tape-count").textContent = `${count(this.shown.length, "operator")}, ${bytes(saved)} saved`;
    this.parent.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.redraw();
  }

  private redraw() {
    this.drawn = "";
    this.draw();
  }

  private draw() {
    const height = matchMedia("(max-width: 700px)").matches ? 58 : 29;
    const from = Math.max(0, Math.floor(this.parent.scrollTop / height) - spare);
    const to = Math.min(this.shown.length, Math.ceil((this.parent.scrollTop + this.parent.clientHeight) / height) + spare);
    if (this.drawn === `${from} ${to}`) return;
    this.drawn = `${from} ${to}`;
    this.space.style.height = `${this.shown.length * height}px`;
    this.space.replaceChildren(...this.shown.slice(from, to).map((row, i) => this.rowElement(row, from + i, height)));
  }

  private rowElement(row: Row, place: number, height: number): HTMLElement {
    const element = make("div", { class: "row" });
    element.setAttribute("role", "row");
    element.setAttribute("aria-rowindex", String(place + 2));
    element.style.transform = `translateY(${place * height}px)`;
    for (const column of this.columns) {
      const text = column.text(row);
      const cell = make("div", { class: column.key, title: text.length > 14 ? text : "" }, text);
      cell.setAttribute("role", "cell");
      if (column.key === "fate" && text) cell.classList.add(`is-${text}`);
      element.append(cell);
    }
    return element;
  }
}
