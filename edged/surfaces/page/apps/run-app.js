// ui://edged/run: the plot of a sweep, a stream, a sequence or a recording, inside a chat.

import { fill, h } from "./dom.js";
import { Host, useTheme } from "./host.js";
import { Figures } from "./figures.js";
import { columnsOfTrace } from "./plot.js";
import { drawnOf, readOn } from "./reader.js";
import { Stop } from "./stop.js";
import { date, plural } from "./format.js";

const AGAIN_MS = 1000;
const IDS = ["run_id", "sweep_id", "stream_id"];
const $ = (id) => document.getElementById(id);
const state = { id: "", runs: null, known: null, drawn: null, trace: null, error: "" };
const names = new Map();
let isOver = false;
const plot = new Figures();
const host = new Host({
  input: take, theme(name) { useTheme(name); plot.draw(); }, end() { isOver = true; },
  result(told) { take(told); show(); },
});
const stop = new Stop($("stop"), $("stopped"), (tool, args, within) => host.call(tool, args, within), (id) => names.get(id) ?? id);

// What a call was about: a run by any of its names, a list of runs, or a trace.
function take(told) {
  if (Array.isArray(told.y_values)) state.trace = told;
  if (Array.isArray(told.runs)) state.runs = told.runs;
  const id = IDS.map((name) => told[name]).find((one) => typeof one === "string" && one);
  if (id && id !== state.id && !state.trace) choose(id);
}

function choose(id) {
  Object.assign(state, { id, known: null, drawn: null, error: "" });
}

async function refresh() {
  if (!state.id || state.trace || state.known?.isWhole) return;
  try {
    const call = (tool, args) => host.call(tool, args);
    state.known = await readOn(call, state.id, state.known);
    state.drawn = await drawnOf(call, state.id, state.known, state.drawn);
    state.error = "";
  } catch (error) {
    state.error = error.message;
  }
  show();
}

function show() {
  $("link").textContent = state.error || (state.known?.isWhole || state.trace ? "" : state.id ? "live" : "");
  $("link").className = state.error ? "bad" : "";
  if (state.trace) return showTrace(state.trace);
  const run = state.known?.run;
  if (run) {
    $("name").textContent = state.id;
    fill($("view"), [
      h("p", { key: "said" }, `${run.kind}, ${run.state}${run.reason ? `: ${run.reason}` : ""}`),
      h("p", { key: "bar", class: "bar" }, run.state === "running" ? h("button", { type: "button", class: "no", on: { click: end } }, `Stop ${run.kind}`) : null),
      plot.element,
    ]);
    plot.take(state.drawn);
  } else if (state.runs) {
    fill($("view"), [h("h2", { key: "title" }, plural(state.runs.length, "recording")),
      h("ul", { key: "runs" }, state.runs.map((one) => h("li", { key: one.run_id },
        h("button", { type: "button", class: "quiet", on: { click: () => { choose(one.run_id); refresh(); } } }, `${date(one.started_ms)} ${one.kind} ${one.command}, ${plural(one.rows, "row")}, ${one.state}`))))]);
  }
}

function showTrace(told) {
  const { x, series } = columnsOfTrace(told);
  fill($("view"), [plot.element]);
  plot.take([{ x, series, about: { title: "waveform" } }]);
}

async function end() {
  try {
    await host.call("bench__stop_run", { run_id: state.id });
  } catch (error) {
    state.error = error.message;
  }
  await refresh();
}

stop.watchKeys(window);
await host.start("edged run");
host.call("list_instruments").then((told) => { for (const one of told.instruments ?? []) names.set(one.id, one.alias || one.model); }, () => {});
while (!isOver) {
  if (document.visibilityState === "visible") await refresh();
  await new Promise((done) => setTimeout(done, AGAIN_MS));
}
