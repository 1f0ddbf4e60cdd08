// Numbers as people read them.

const gap = "\u00a0"; // an amount and its unit stay on one line
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(amount: number): string {
  let unit = 0;
  let size = Math.abs(amount);
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    ++unit;
  }
  const text = unit === 0 ? String(size) : size.toFixed(1);
  return `${amount < 0 ? "-" : ""}${text}${gap}${units[unit]}`;
}

export function seconds(nanoseconds: number): string {
  const s = nanoseconds / 1e9;
  if (s === 0) return `0${gap}s`;
  if (s >= 100) return `${s.toFixed(0)}${gap}s`;
  if (s >= 1) return `${s.toFixed(2)}${gap}s`;
  if (s >= 1e-3) return `${(s * 1e3).toPrecision(3)}${gap}ms`;
  return `${(s * 1e6).toPrecision(3)}${gap}µs`;
}

export function percent(share: number): string {
  const p = 100 * share;
  if (p !== 0 && Math.abs(p) < 0.1) return `under${gap}0.1${gap}%`;
  return `${Math.abs(p) < 9.95 ? p.toFixed(1) : p.toFixed(0)}${gap}%`;
}

// How much longer a step takes that rebuilds for `extra` of its `nanoseconds`.
export function longer(extra: number, nanoseconds: number): string {
  if (extra <= 0) return "no longer";
  return nanoseconds > 0 ? `${percent(extra / nanoseconds)} longer` : `${seconds(extra)} longer`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
}

// As a budget is written in code: whole MiB, or KiB where that would be coarse; never below the amount.
export function budgetText(amount: number): string {
  const mebi = 1024 * 1024;
  return amount >= 64 * mebi ? `${Math.ceil(amount / mebi)}MiB` : `${Math.ceil(amount / 1024)}KiB`;
}

// What people would call a layer's block: the first part of its path, with the numbers that follow it ("blocks.3" of
// "blocks.3.mlp.fc1"), as `retrace explain` has it.
export function block(layer: string): string {
  return layer.match(/^[^.]*(\.\d+(?=\.|$))*/)?.[0] ?? layer;
}
