// A heat map of one column over two loops, on one canvas: what was measured has a colour, what gave
// no reading is crossed, what was left out is hatched, and what is still to come is empty.

import { fill, h } from "./dom.js";
import { labelled, text, ticksOf } from "./format.js";

const [EMPTY, MEASURED, MISSING, SKIPPED] = [0, 1, 2, 3];
// Viridis: its lightness rises throughout, so that it can be read without its hues.
const STOPS = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]];
const STEPS = [1, 2, 4, 5, 10, 20, 40, 50, 100];

function colourOf(part) {
  const at = part * (STOPS.length - 1), low = STOPS[Math.floor(at)], high = STOPS[Math.ceil(at)];
  return `rgb(${low.map((one, k) => Math.round(one + (high[k] - one) * (at % 1)))})`;
}

// What of a run a map shows, row by row of y; null where its loops are not known. dimensions: the
// loops, the outermost first. Of loops beside x and y, the pass of the last row is shown.
export function mapOf(run, dimensions, plot, every) {
  const [x, y] = [plot.x, plot.y].map((name) => dimensions.find((one) => one.name === name && one.values));
  const at = (name) => run.columns.indexOf(name), place = (one) => at(`n_${one.name}`), value = at(plot.map), flags = at("flags");
  if (!x || !y || x === y || value < 0) return null;
  const wide = x.values.length, values = Array(wide * y.values.length).fill(NaN), marks = values.map(() => EMPTY);
  const isPlaced = (row) => row[place(x)] !== null && row[place(y)] !== null, last = run.rows.findLast(isPlaced);
  const others = dimensions.filter((one) => one !== x && one !== y).map(place);
  const rows = run.rows.filter((row) => isPlaced(row) && others.every((index) => row[index] === last[index]));
  const cellOf = (row) => row[place(y)] * wide + row[place(x)];
  for (const row of rows) {
    const cell = cellOf(row);
    if (typeof row[value] === "number") [values[cell], marks[cell]] = [row[value], MEASURED];
    else if (!marks[cell] && `${row[flags]}`.includes(`${plot.map}: `)) marks[cell] = MISSING;
  }
  // A line before the one under way is done: what it does not have was left out.
  const outer = dimensions.indexOf(x) < dimensions.indexOf(y) ? x : y;
  const first = rows[0]?.[place(outer)], now = last?.[place(outer)];
  const isDone = (line) => run.state === "completed" || (line !== now && (line - first) * (line - now) <= 0);
  marks.forEach((mark, cell) => {
    if (every === 1 && !mark && isDone(outer === x ? cell % wide : Math.floor(cell / wide))) marks[cell] = SKIPPED;
  });
  return { x, y, name: plot.map, unit: run.units?.[value] ?? "", values, marks, head: last ? cellOf(last) : -1, isLog: Boolean(plot.log) };
}

export class HeatMap {
  constructor() {
    this.at = -1;
    this.canvas = h("canvas", { class: "map", role: "img", tabindex: "0", on: {
      keydown: (event) => this.key(event), pointermove: (event) => this.point(event), pointerleave: () => this.look(-1) } });
    this.legend = h("p", { class: "legend", role: "status" });
    this.bar = h("div", { class: "bar" });
    this.said = h("p", { class: "faint" });
    this.element = h("figure", { class: "plot" }, this.canvas, h("figcaption", null, this.legend, this.bar, this.said));
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.canvas);
  }

  // What reader.drawnOf gives.
  take({ map, about }) {
    Object.assign(this, { map, about, isLog: this.isLog ?? map.isLog });
    this.draw();
  }

  draw() {
    const { canvas, map } = this;
    if (!map || !canvas.clientWidth) return;
    const { x, y, values, marks } = map, nx = x.values.length, ny = y.values.length;
    const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(name).trim();
    const rem = parseFloat(style.fontSize), dots = devicePixelRatio, width = canvas.clientWidth;
    const height = Math.round(Math.max(240, Math.min(width * 0.55, innerHeight * 0.5)));
    canvas.style.height = `${height}px`;
    Object.assign(canvas, { width: width * dots, height: height * dots });
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    pen.font = `${Math.round(rem * 0.75)}px system-ui`;
    const left = rem * 4.6, top = rem * 0.6, right = width - rem * 6, bottom = height - rem * 3, cw = (right - left) / nx, ch = (bottom - top) / ny;
    Object.assign(this, { cellAt: (px, py) => {
      const i = Math.floor((px - left) / cw), j = Math.floor((bottom - py) / ch);
      return i >= 0 && i < nx && j >= 0 && j < ny ? j * nx + i : -1;
    } });
    const write = (said, px, py, align, isUpright) => {
      pen.save();
      pen.translate(px, py);
      if (isUpright) pen.rotate(-Math.PI / 2);
      Object.assign(pen, { fillStyle: ink("--ink"), textAlign: align, textBaseline: "middle" });
      pen.fillText(said, 0, 0);
      pen.restore();
    };
    // Cells end where pixels do, so that nothing shows between them.
    const box = (cell) => {
      const [i, j] = [cell % nx, Math.floor(cell / nx)], [a, b] = [i, i + 1].map((one) => Math.round(left + one * cw)), [c, d] = [j + 1, j].map((one) => Math.round(bottom - one * ch));
      return [a, c, b - a, d - c];
    };
    const [to, from] = this.isLog ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const known = values.map(to).filter(Number.isFinite), low = known.reduce((a, b) => Math.min(a, b), Infinity);
    const span = known.reduce((a, b) => Math.max(a, b), -Infinity) - low || Math.abs(low) || 1;
    const paths = { [MISSING]: new Path2D(), [SKIPPED]: new Path2D() };
    marks.forEach((mark, cell) => {
      paths[mark]?.rect(...box(cell));
      if (mark !== MEASURED) return;
      pen.fillStyle = colourOf(Math.max((to(values[cell]) - low) / span, 0) || 0);
      pen.fillRect(...box(cell));
    });
    const hatch = (mark, slope, name) => {
      pen.save();
      pen.clip(paths[mark]);
      pen.beginPath();
      for (let at = left - height; at < right + height; at += 6) {
        pen.moveTo(at, bottom);
        pen.lineTo(at + slope * height, bottom - height);
      }
      pen.strokeStyle = ink(name);
      pen.stroke();
      pen.restore();
    };
    hatch(SKIPPED, 1, "--faint");
    hatch(MISSING, 1, "--bad");
    hatch(MISSING, -1, "--bad");
    pen.strokeStyle = ink("--faint");
    pen.strokeRect(left, top, right - left, bottom - top);
    for (const [cell, name] of [[this.about.live ? map.head : -1, "--live"], [this.at, "--ink"]]) {
      if (cell < 0) continue;
      // Seen on every colour.
      for (const [size, part] of [[5, "--paper"], [2, name]]) {
        Object.assign(pen, { lineWidth: size, strokeStyle: ink(part) });
        pen.strokeRect(...box(cell));
      }
    }
    const ticks = (axis, room, put) => {
      const least = Math.ceil(axis.values.length / Math.max(2, Math.floor(room))), step = STEPS.find((one) => one >= least) ?? least;
      ticksOf(axis.values.filter((_, i) => i % step === 0), axis.unit).forEach((said, i) => put(said, i * step + 0.5));
    };
    ticks(x, (right - left) / rem / 4, (said, i) => write(said, left + i * cw, bottom + rem * 0.8, "center"));
    ticks(y, (bottom - top) / rem / 2, (said, j) => write(said, left - rem * 0.4, bottom - j * ch, "right"));
    write(labelled(x), (left + right) / 2, bottom + rem * 2.2, "center");
    write(labelled(y), rem * 0.6, (top + bottom) / 2, "center", true);
    const bar = pen.createLinearGradient(0, bottom, 0, top);
    STOPS.forEach((_, i) => bar.addColorStop(i / (STOPS.length - 1), colourOf(i / (STOPS.length - 1))));
    pen.fillStyle = bar;
    pen.fillRect(right + rem * 0.8, top, rem * 0.8, bottom - top);
    if (known.length) for (const part of [0, 0.25, 0.5, 0.75, 1]) write(text(from(low + part * span), map.unit, 2), right + rem * 1.9, bottom - rem * 0.4 - part * (bottom - top - rem * 0.8), "left");
    write(labelled(map), width - rem * 0.5, (top + bottom) / 2, "center", true);
    this.tell();
  }

  tell() {
    const { name, x, y, marks, values, head } = this.map, { title, live, every } = this.about;
    const count = (wanted) => marks.filter((mark) => mark === wanted).length, below = this.isLog && values.filter((v) => v <= 0).length;
    const words = [
      `${title}: ${name} over ${x.name} and ${y.name}, ${count(MEASURED)} of ${marks.length} cells`, count(SKIPPED) && `${count(SKIPPED)} skipped (hatched)`,
      count(MISSING) && `${count(MISSING)} without a reading (crossed)`, below && `${below} not above 0 (darkest)`, every > 1 && `each for ${every} rows`, live && "live",
    ].filter(Boolean).join(", ");
    fill(this.said, [document.createTextNode(words)]);
    this.canvas.setAttribute("aria-label", `${words}. Arrow keys move the cursor.`);
    fill(this.bar, [h("button", { type: "button", class: "quiet", "aria-pressed": String(this.isLog), on: { click: () => { this.isLog = !this.isLog; this.draw(); } } }, "log colours")]);
    const cell = this.at < 0 ? head : this.at, wide = x.values.length;
    if (cell < 0) return;
    const read = [live ? "not yet measured" : "not measured", text(values[cell], this.map.unit), "no reading", "skipped"][marks[cell]];
    fill(this.legend, [h("span", null, `at ${x.name} ${text(x.values[cell % wide], x.unit)}, ${y.name} ${text(y.values[Math.floor(cell / wide)], y.unit)}`), h("b", null, `${name} ${read}`)]);
  }

  look(cell) {
    if (cell === this.at) return;
    this.at = cell;
    this.draw();
  }

  point(event) {
    if (this.cellAt) this.look(this.cellAt(event.offsetX, event.offsetY));
  }

  key(event) {
    const [right, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [];
    if (right === undefined || !this.map) return;
    event.preventDefault();
    const { x, y, head } = this.map, wide = x.values.length, from = Math.max(this.at < 0 ? head : this.at, 0);
    const inside = (place, size) => Math.min(Math.max(place, 0), size - 1);
    this.look(inside(Math.floor(from / wide) + up, y.values.length) * wide + inside((from % wide) + right, wide));
  }

  end() {
    this.watcher.disconnect();
  }
}
