// A plot of columns of numbers: uPlot, with log axes and a text that says what it shows.

import { fill, h } from "./dom.js";
import { plural, text } from "./format.js";

const COLOURS = ["--line1", "--line2", "--line3", "--line4", "--line5", "--line6"];

// One plot in one element; `show` may be called as often as there is something new.
export class Plot {
  constructor() {
    this.log = { x: false, y: false };
    this.canvas = h("div", { class: "canvas" });
    this.said = h("p", { class: "faint" });
    this.bar = h("div", { class: "bar" });
    this.element = h("figure", { class: "plot", "data-own": true }, this.canvas, h("figcaption", null, this.said, this.bar));
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // x: {name, unit, values, isTime}; series: [{name, unit, values}]
  show(x, series, { title = "", live = false } = {}) {
    const shape = JSON.stringify([x.name, series.map((one) => one.name)]);
    const isNew = shape !== this.shape;
    Object.assign(this, { x, series, title, live, shape });
    if (isNew || !this.plot) this.draw();
    else this.plot.setData(this.data());
    this.tell();
  }

  data() {
    return [this.x.values, ...this.series.map((one) => (this.log.y ? one.values.map((v) => (v > 0 ? v : null)) : one.values))];
  }

  draw() {
    if (!this.x) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const font = `${Math.round(parseFloat(style.fontSize) * 0.75)}px system-ui`;
    const axis = { stroke: colour("--ink"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, font };
    const label = ({ name, unit }) => (unit ? `${name} [${unit}]` : name);
    // Two units have an axis each; what is of a third is drawn by the second's.
    const units = [...new Set(this.series.map((one) => one.unit))];
    const scaleOf = (one) => (one.unit === units[0] ? "y" : "y2");
    const scale = { distr: this.log.y ? 3 : 1 };
    const labels = { size: 64, labelFont: font, labelSize: 20, values: (_, ticks) => ticks.map((v) => (v === null ? "" : text(v, "", 4))) };
    const isTime = this.x.isTime;
    const options = {
      ...this.size(),
      cursor: { drag: { x: true, y: false } },
      legend: { live: true },
      scales: {
        x: { time: Boolean(isTime), distr: this.log.x && !isTime ? 3 : 1 },
        y: scale, ...(units.length > 1 ? { y2: scale } : {}),
      },
      axes: [
        { ...axis, label: isTime ? "" : label(this.x), labelFont: font, labelSize: 20 },
        { ...axis, ...labels, label: units[0] || "" },
        ...(units.length > 1 ? [{ ...axis, ...labels, scale: "y2", side: 1, grid: { show: false }, label: units.slice(1).join(", ") }] : []),
      ],
      series: [
        { label: this.x.name, value: (_, v) => (v === null ? "–" : isTime ? new Date(v * 1000).toLocaleTimeString() : text(v, this.x.unit)) },
        ...this.series.map((one, index) => ({
          label: label(one), scale: scaleOf(one), stroke: colour(COLOURS[index % COLOURS.length]), width: 2, dash: index < 6 ? undefined : [6, 3],
          points: { show: this.x.values.length < 60 }, value: (_, v) => (v === null || v === undefined ? "–" : text(v, one.unit)),
        })),
      ],
    };
    this.canvas.replaceChildren();
    this.plot = new window.uPlot(options, this.data(), this.canvas);
    this.canvas.setAttribute("role", "img");
    this.tell();
  }

  tell() {
    const count = this.x.values.length;
    const words = `${this.title ? `${this.title}: ` : ""}${plural(count, "point")} of ${this.series.map((one) => one.name).join(", ") || "nothing"} over ${this.x.name}${this.live ? ", live" : ""}`;
    this.canvas.setAttribute("aria-label", words);
    fill(this.said, [document.createTextNode(words)]);
    fill(this.bar, [
      this.toggle("y", "log y"), this.x.isTime ? null : this.toggle("x", "log x"),
      h("button", { type: "button", class: "quiet", on: { click: () => this.plot?.setData(this.data(), true) } }, "Show all"),
    ]);
  }

  toggle(which, label) {
    return h("button", {
      type: "button", class: "quiet", "aria-pressed": String(this.log[which]),
      on: { click: () => { this.log[which] = !this.log[which]; this.draw(); } },
    }, label);
  }

  size() {
    const width = Math.max(240, this.canvas.clientWidth || 600);
    return { width, height: Math.round(Math.max(180, Math.min(width * 0.42, window.innerHeight * 0.45))) };
  }

  resize() {
    if (this.plot && this.canvas.clientWidth && Math.abs(this.plot.width - this.canvas.clientWidth) > 2) this.plot.setSize(this.size());
  }

  end() {
    this.watcher.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }
}

// The rows of bench__runs as x and series: over the set-point of a sweep, else over time.
export function columnsOf(run) {
  const at = (name) => run.columns.indexOf(name);
  const column = (index) => run.rows.map((row) => (typeof row[index] === "number" ? row[index] : null));
  const skipped = new Set(["t", "timestamp_ms", "elapsed_s", "flag"]);
  let x = null;
  if (run.kind === "sweep" && at("set") >= 0) {
    x = { name: "set", unit: run.units[at("set")] ?? "", values: column(at("set")) };
    skipped.add("set");
  } else if (at("timestamp_ms") >= 0) {
    x = { name: "time", unit: "", isTime: true, values: column(at("timestamp_ms")).map((ms) => ms / 1000) };
  } else {
    const index = run.columns.findIndex((_, i) => column(i).some((v) => v !== null));
    x = { name: run.columns[index] ?? "row", unit: run.units?.[index] ?? "", values: index < 0 ? [] : column(index) };
    skipped.add(x.name);
  }
  const series = run.columns
    .map((name, index) => ({ name, unit: run.units?.[index] ?? "", values: column(index) }))
    .filter((one) => !skipped.has(one.name) && one.values.some((v) => v !== null));
  return ordered(x, series.length || run.kind !== "sweep" ? series : [{ name: "set", unit: x.unit, values: x.values }]);
}

// uPlot wants x in its order; a sweep may come down.
function ordered(x, series) {
  const order = x.values.map((_, i) => i).filter((i) => x.values[i] !== null);
  order.sort((a, b) => x.values[a] - x.values[b]);
  const by = (values) => order.map((i) => values[i]);
  return { x: { ...x, values: by(x.values) }, series: series.map((one) => ({ ...one, values: by(one.values) })) };
}
