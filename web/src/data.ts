// What the page is given (src/report/page.cpp), and what it makes of it.

export const owners = ["weights", "gradients", "kept", "rebuilt", "other"] as const;
export type Owner = (typeof owners)[number];

export const fates = ["", "kept", "encoded", "rebuilt"] as const;
export type Fate = (typeof fates)[number];

// The kinds of plan::EventKind, in its order.
export const eventKinds = ["op", "save", "release", "unpack", "drop", "end"] as const;

interface RawCurve extends Record<Owner | "time" | "op" | "event", number[]> {
  end: number;
  backward: number;
  peak: number;
}

interface RawScenario {
  name: string;
  kind: "policy" | "budget" | "plan";
  peak: number;
  owners: number[];
  average: number;
  extra: number;
  rerun: number;
  layers: number[][];
  curve: RawCurve;
  kept: [number, number];
  rebuilt: [number, number];
  encoded: [number, number, number];
  lossy: number;
  fates: string;
  budget?: number;
  bound?: number;
}

interface RawData {
  title: string;
  version: string;
  seconds: number;
  values: number;
  rows: Record<"name" | "layer" | "shape" | "bytes" | "saved" | "waits" | "rebuild", number[]>;
  scenarios: RawScenario[];
  texts: string[];
}

// Bytes of all owners in each of the moments that are drawn; nanoseconds since the step began.
export interface Curve extends RawCurve {
  total: number[];
}

// A step under a policy or by a plan. Bytes and nanoseconds.
export interface Scenario extends Omit<RawScenario, "curve" | "fates"> {
  curve: Curve;
  fates: Uint8Array; // by row, an index of `fates`
}

export interface Row {
  index: number;
  name: string;
  layer: string;
  shape: string;
  bytes: number;
  saved: number;
  waits: number; // -1: backward never asks for it
  rebuild: number; // -1: nothing of it was saved, or it cannot be rebuilt
}

export interface Report {
  title: string;
  version: string;
  seconds: number;
  values: number;
  rows: Row[];
  texts: string[];
  choices: Scenario[]; // policies, the plain program first, and a plan that was given
  rungs: Scenario[]; // by budget, rising
}

function summed(differences: number[]): number[] {
  let now = 0;
  return differences.map((d) => (now += d));
}

function unpackedCurve(raw: RawCurve): Curve {
  const curve = { ...raw } as Curve;
  for (const key of [...owners, "time", "op", "event"] as const) curve[key] = summed(raw[key]);
  curve.total = curve.time.map((_, i) => owners.reduce((sum, owner) => sum + curve[owner][i], 0));
  return curve;
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function unpackedFates(text: string, rows: number): Uint8Array {
  const result = new Uint8Array(rows);
  for (let i = 0; i < rows; ++i) result[i] = (digits.indexOf(text[Math.floor(i / 3)]) >> (2 * (i % 3))) & 3;
  return result;
}

// Unpacking is put off until a scenario is looked at: a page has dozens of them.
function lazily(raw: RawScenario, rows: number): Scenario {
  let curve: Curve | undefined;
  let fates: Uint8Array | undefined;
  return {
    ...raw,
    get curve() {
      return (curve ??= unpackedCurve(raw.curve));
    },
    get fates() {
      return (fates ??= unpackedFates(raw.fates, rows));
    },
  };
}

export function readReport(text: string): Report {
  const raw = JSON.parse(text) as RawData;
  const { rows, texts } = raw;
  const scenarios = raw.scenarios.map((s) => lazily(s, rows.name.length));
  return {
    title: raw.title,
    version: raw.version,
    seconds: raw.seconds,
    values: raw.values,
    texts,
    rows: rows.name.map((name, index) => ({
      index,
      name: texts[name],
      layer: texts[rows.layer[index]],
      shape: texts[rows.shape[index]],
      bytes: rows.bytes[index],
      saved: rows.saved[index],
      waits: rows.waits[index],
      rebuild: rows.rebuild[index],
    })),
    choices: scenarios.filter((s) => s.kind !== "budget"),
    rungs: scenarios.filter((s) => s.kind === "budget"),
  };
}
