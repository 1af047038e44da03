// The pictures of one run, one below the other.

import { h } from "./dom.js";
import { text } from "./format.js";
import { HeatMap, mapOf } from "./map.js";
import { Plot, ordered } from "./plot.js";

const MOST_LINES = 6;
const OWN = ["attempt", "flags", "elapsed_s"];

export class Figures {
  constructor() {
    this.shown = [];
    this.element = h("div");
    this.element.isOwn = true;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // What reader.drawnOf gives.
  take(list) {
    for (const one of this.shown.splice(list.length)) one.end();
    list.forEach((drawn, i) => {
      const kind = drawn.map ? HeatMap : Plot;
      if (!(this.shown[i] instanceof kind)) {
        this.shown[i]?.end();
        this.shown[i] = new kind();
      }
    });
    const elements = this.shown.map((one) => one.element);
    if (elements.some((one, i) => this.element.children[i] !== one)) this.element.replaceChildren(...elements);
    this.shown.forEach((one, i) => one.take(list[i]));
  }

  draw() {
    for (const one of this.shown) one.draw();
  }

  end() {
    for (const one of this.shown) one.end();
  }
}

// What an experiment wants to be seen; where it says nothing, a map of what it measures first, or lines.
export function figuresOf(run, { dimensions, plots, logs }, about) {
  const loops = run.columns.filter((name) => name.startsWith("n_")).map((name) => name.slice(2));
  const measured = run.columns.filter((name) => ![...OWN, ...loops].includes(name) && !name.startsWith("n_"));
  const [y, x] = dimensions.filter((one) => one.values).slice(-2).map((one) => one.name);
  const wanted = plots.length ? plots : x ? [{ map: measured[0], x, y }] : [{ line: measured }];
  return wanted.map((plot) => {
    const map = plot.map && mapOf(run, dimensions, plot, about.every);
    if (map) return { map, about };
    const names = [plot.map ?? plot.line].flat(), log = logs[names[0]];
    const drawn = log ? linesOf(log, names, "elapsed_s", []) : linesOf(run, names, plot.x ?? loops.at(-1) ?? "elapsed_s", loops);
    return drawn && { ...drawn, about };
  }).filter(Boolean);
}

// Columns over another one; over a loop with loops around it, a line for some of their passes.
function linesOf(run, names, over, loops) {
  const at = (name) => run.columns.indexOf(name), unit = (name) => run.units?.[at(name)] ?? "", number = (cell) => (typeof cell === "number" ? cell : null);
  const known = names.filter((name) => at(name) >= 0), others = loops.includes(over) ? loops.filter((name) => name !== over && at(name) >= 0) : [];
  if (at(over) < 0 || !known.length) return null;
  const passes = new Map();
  for (const row of run.rows) {
    const pass = others.map((name) => `${name} ${text(row[at(name)], unit(name))}`).join(", ");
    if (!passes.has(pass)) passes.set(pass, []);
    passes.get(pass).push(row);
  }
  const step = Math.ceil(passes.size / (MOST_LINES - 1)), shown = [...passes].filter((_, i) => i % step === 0 || i === passes.size - 1);
  const read = (name) => (row) => number(row[at(name)]);
  if (!others.length) return ordered({ name: over, unit: unit(over), values: run.rows.map(read(over)) }, known.map((name) => ({ name, unit: unit(name), values: run.rows.map(read(name)) })));
  const places = [...new Set(shown.flatMap(([, rows]) => rows.map(read(over))))];
  const series = shown.flatMap(([pass, rows]) => known.map((name) => {
    const found = new Map(rows.map((row) => [read(over)(row), read(name)(row)]));
    return { name: `${name} at ${pass}`, unit: unit(name), values: places.map((place) => found.get(place) ?? null) };
  }));
  return ordered({ name: over, unit: unit(over), values: places }, series);
}
