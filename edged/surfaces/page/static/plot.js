// A plot of columns of numbers: uPlot, with log axes, zoom and cursor by pointer, finger and keys, and
// a text that says what it shows.

import { fill, h } from "./dom.js";
import { clock, date, day, fine, labelled, plural, text, ticksOf } from "./format.js";

const COLOURS = 6;
const IN = 0.5;
const OUT = 2;
const DAY_S = 86400;

// Ticks of the time of day; the first of each day has the day below it.
function times(_plot, ticks, _axis, _space, step) {
  return ticks.map((s, index) => {
    const ms = s * 1000;
    const isFirst = index === 0 || day(ticks[index - 1] * 1000) !== day(ms);
    if (step >= DAY_S) return day(ms);
    const at = step < 1 ? fine(ms).slice(6) : step < 60 ? clock(ms) : clock(ms).slice(0, 5);
    return isFirst ? `${at}\n${day(ms)}${step < 1 ? ` ${clock(ms).slice(0, 5)}` : ""}` : at;
  });
}

// One plot in one element; `show` may be called as often as there is something new.
export class Plot {
  constructor() {
    this.log = { x: false, y: false };
    this.hidden = new Set();
    this.canvas = h("div", { class: "canvas", role: "img", tabindex: "0", on: { keydown: (event) => this.key(event) } });
    this.legend = h("ul", { class: "legend" });
    this.said = h("p", { class: "faint" });
    this.bar = h("div", { class: "bar" });
    this.picture = h("img", { hidden: true });
    this.element = h("figure", { class: "plot" }, this.picture, this.canvas, h("figcaption", null, this.legend, this.bar, this.said));
    this.element.isOwn = true;
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.canvas);
  }

  // x: {name, unit, values, isTime}; series: [{name, unit, values}]
  // every: each so many-th row is a point.
  show(x, series, { title = "", live = false, every = 1 } = {}) {
    const shape = JSON.stringify([x.name, series.map((one) => one.name)]);
    const isNew = shape !== this.shape;
    Object.assign(this, { x, series, title, live, every, shape });
    if (isNew || !this.plot) this.draw();
    else this.renew();
    this.tell();
  }

  // What reader.drawnOf gives.
  take(drawn) {
    if (!drawn) return;
    this.picture.hidden = !drawn.picture;
    for (const part of [this.canvas, this.legend, this.bar, this.said]) part.hidden = Boolean(drawn.picture);
    if (drawn.picture) Object.assign(this.picture, { src: drawn.picture.picture, alt: drawn.picture.said });
    else this.show(drawn.x, drawn.series, drawn.about);
  }

  // What a person has zoomed into stays in sight while more comes.
  renew() {
    const { min, max } = this.plot.scales.x;
    const isZoomed = this.isZoomed();
    this.plot.setData(this.data(), !isZoomed);
    if (isZoomed) this.plot.setScale("x", { min, max });
  }

  data() {
    return [this.x.values, ...this.series.map((one) => (this.log.y ? one.values.map((v) => (v > 0 ? v : null)) : one.values))];
  }

  draw() {
    if (!this.x) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const rem = parseFloat(style.fontSize);
    const font = `${Math.round(rem * 0.75)}px system-ui`;
    const axis = { stroke: colour("--ink"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, font, labelFont: font, labelSize: rem * 1.2 };
    // Two units have an axis each; what is of a third is drawn by the second's.
    const units = [...new Set(this.series.map((one) => one.unit))];
    const scaleOf = (one) => (one.unit === units[0] ? "y" : "y2");
    const scale = { distr: this.log.y ? 3 : 1 };
    const numbers = (unit) => ({ size: rem * 3.6, values: (_, ticks) => ticksOf(ticks, unit) });
    const isTime = this.x.isTime;
    const options = {
      ...this.size(),
      cursor: { drag: { x: true, y: false } },
      legend: { show: false },
      hooks: { setCursor: [() => this.tellCursor()], setScale: [(_, key) => key === "x" && this.said.isConnected && this.tell()] },
      scales: {
        x: { time: Boolean(isTime), distr: this.log.x && !isTime ? 3 : 1 },
        y: scale, ...(units.length > 1 ? { y2: scale } : {}),
      },
      axes: [
        { ...axis, ...(isTime ? { size: rem * 3, space: rem * 4.5, values: times } : { size: rem * 2.2, label: labelled(this.x), values: numbers(this.x.unit).values }) },
        { ...axis, ...numbers(units[0]), label: units[0] || "" },
        ...(units.length > 1 ? [{ ...axis, ...numbers(units[1]), scale: "y2", side: 1, grid: { show: false }, label: units.slice(1).join(", ") }] : []),
      ],
      series: [{}, ...this.series.map((one, index) => ({
        label: labelled(one), scale: scaleOf(one), stroke: colour(`--line${(index % COLOURS) + 1}`), width: Math.max(2, rem / 9), dash: index < COLOURS ? undefined : [6, 3],
        points: { show: this.x.values.length < 60 }, show: !this.hidden.has(one.name),
      }))],
    };
    this.canvas.replaceChildren();
    this.plot = new window.uPlot(options, this.data(), this.canvas);
    this.tell();
  }

  at(index) {
    const { values, unit, isTime } = this.x;
    if (!isTime) return text(values[index], unit);
    return (values[values.length - 1] - values[0] < DAY_S ? fine : date)(values[index] * 1000);
  }

  // The figures at the cursor; without one, the last.
  tellCursor() {
    const index = this.plot?.cursor.idx ?? this.x.values.length - 1;
    fill(this.legend, [
      index < 0 ? null : h("li", { key: "x", class: "faint" }, `at ${this.at(index)}`),
      ...this.series.map((one, i) => h("li", { key: one.name },
        h("button", { type: "button", class: `quiet line${(i % COLOURS) + 1}`, "aria-pressed": String(!this.hidden.has(one.name)), on: { click: () => this.toggleSeries(one.name) } }, one.name),
        h("b", null, text(one.values[index] ?? null, one.unit)))),
    ].filter(Boolean));
  }

  tell() {
    const count = this.x.values.length;
    const about = `${this.title ? `${this.title}: ` : ""}${plural(count, "point")} of ${this.series.map((one) => one.name).join(", ") || "nothing"} over ${this.x.name}`;
    const { first, last, isZoomed } = this.window();
    const words = `${about}${this.every > 1 ? `, each for ${this.every} rows` : ""}${isZoomed ? `, of these ${this.at(first)} to ${this.at(last)}` : ""}${this.live ? ", live" : ""}`;
    this.canvas.setAttribute("aria-label", `${words}. Arrow keys move the cursor, plus and minus zoom.`);
    fill(this.said, [document.createTextNode(words)]);
    const zoom = (factor, name) => h("button", { type: "button", class: "quiet", on: { click: () => this.zoom(factor) } }, name);
    fill(this.bar, [
      this.toggle("y", "log y"), this.x.isTime ? null : this.toggle("x", "log x"),
      zoom(IN, "Zoom in"), isZoomed ? zoom(OUT, "Zoom out") : null, isZoomed ? zoom(Infinity, "Show all") : null,
    ]);
    this.tellCursor();
  }

  toggle(which, label) {
    return h("button", {
      key: label, type: "button", class: "quiet", "aria-pressed": String(this.log[which]),
      on: { click: () => { this.log[which] = !this.log[which]; this.draw(); } },
    }, label);
  }

  toggleSeries(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.plot.setSeries(1 + this.series.findIndex((one) => one.name === name), { show: !this.hidden.has(name) });
    this.tellCursor();
  }

  // What of the points is in sight.
  window() {
    const { values } = this.x;
    const { min, max } = this.plot?.scales.x ?? {};
    // It has not been drawn yet.
    if (typeof min !== "number") return { first: 0, last: values.length - 1, isZoomed: false };
    const first = values.findIndex((v) => v >= min);
    const last = values.findLastIndex((v) => v <= max);
    const isZoomed = values.length > 1 && first >= 0 && last >= 0 && (first > 0 || last < values.length - 1);
    return { first, last, isZoomed };
  }

  isZoomed() {
    // By what is drawn: the new points are not.
    const [drawn] = this.plot.data;
    const { min, max } = this.plot.scales.x;
    return drawn.length > 1 && (min > drawn[0] || max < drawn[drawn.length - 1]);
  }

  // About the cursor; where there is none, about the middle.
  zoom(factor) {
    const { values } = this.x;
    if (!this.plot || values.length < 2) return;
    if (factor === Infinity) return this.plot.setData(this.data(), true);
    const isLog = this.log.x && !this.x.isTime;
    const [to, from] = isLog ? [Math.log, Math.exp] : [(v) => v, (v) => v];
    const { min, max } = this.plot.scales.x;
    const index = this.plot.cursor.idx;
    const middle = index === null || index === undefined ? (to(min) + to(max)) / 2 : to(values[index]);
    const half = ((to(max) - to(min)) * factor) / 2;
    const low = Math.max(from(middle - half), values[0]);
    const high = Math.min(from(middle + half), values[values.length - 1]);
    if (high > low) this.plot.setScale("x", { min: low, max: high });
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const { first, last } = this.window();
      const at = this.plot.cursor.idx ?? last;
      const index = Math.min(Math.max(at + steps[event.key], first), last);
      if (index >= 0) this.plot.setCursor({ left: this.plot.valToPos(this.x.values[index], "x"), top: 1 });
    } else if (event.key === "+" || event.key === "=") this.zoom(IN);
    else if (event.key === "-") this.zoom(OUT);
    else if (event.key === "0") this.zoom(Infinity);
    else return;
    event.preventDefault();
  }

  size() {
    const width = Math.max(240, this.canvas.clientWidth || 600);
    return { width, height: Math.round(Math.max(200, Math.min(width * 0.45, window.innerHeight * 0.45))) };
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

// The rows of bench__runs as x and series: over the set-point of a sweep, over time, or, of a sequence,
// over what it set, as long as that goes one way; a loop is over its rows.
export function columnsOf(run, every = 1) {
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
    const isNumeric = (_, i) => column(i).some((v) => v !== null);
    const set = run.columns.findIndex((name) => name.startsWith("set_"));
    const index = set >= 0 ? set : run.columns.findIndex(isNumeric);
    const values = index < 0 ? [] : column(index);
    if (goesOneWay(values)) {
      x = { name: run.columns[index] ?? "row", unit: run.units?.[index] ?? "", values };
      skipped.add(x.name);
    } else x = { name: "row", unit: "", values: run.rows.map((_, row) => row * every) };
  }
  const series = run.columns
    .map((name, index) => ({ name, unit: run.units?.[index] ?? "", values: column(index) }))
    .filter((one) => !skipped.has(one.name) && one.values.some((v) => v !== null));
  return ordered(x, series.length || run.kind !== "sweep" ? series : [{ name: "set", unit: x.unit, values: x.values }]);
}

// Whether the rows tell of traces, which are arrays beside them.
export function isOfTraces(run) {
  return run.columns.includes("array") && run.columns.includes("point_index");
}

// A trace as fetch_waveform gives it, decimated, as x and series.
export function columnsOfTrace(told) {
  const isTime = (told.x_unit ?? "s") === "s";
  const x = { name: isTime ? "time" : "x", unit: told.x_unit ?? "s", values: told.y_values.map((_, index) => told.x_first + index * told.x_step) };
  return { x, series: [{ name: "trace", unit: told.y_unit ?? "", values: told.y_values }] };
}

function goesOneWay(values) {
  const known = values.filter((v) => v !== null);
  const each = (holds) => known.every((v, i) => i === 0 || holds(known[i - 1], v));
  return each((a, b) => a <= b) || each((a, b) => a >= b);
}

// uPlot wants x in its order; a sweep may come down.
export function ordered(x, series) {
  const order = x.values.map((_, i) => i).filter((i) => x.values[i] !== null);
  order.sort((a, b) => x.values[a] - x.values[b]);
  const by = (values) => order.map((i) => values[i]);
  return { x: { ...x, values: by(x.values) }, series: series.map((one) => ({ ...one, values: by(one.values) })) };
}
