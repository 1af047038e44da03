// Recordings: the list, and one with its plot, its figures and what can be taken away.

import { h } from "./dom.js";
import { date, plural, text } from "./format.js";
import { nameOf, runHead, runsOf } from "./bench.js";
import { experimentView } from "./experiment.js";
import { isOfTraces } from "./plot.js";

export const MOST_RUNS = 200;

const TIMES = new Set(["t", "timestamp_ms", "elapsed_s"]);

export function runsView(state) {
  const runs = state.runs ?? [];
  return [h("section", { key: "runs", "aria-label": "Recordings" }, h("h2", null, runs.length < MOST_RUNS ? "Recordings" : `Recordings, the newest ${MOST_RUNS}`),
    runs.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Recordings, a table" }, h("table", { class: "rows" },
      h("thead", null, h("tr", null, ["began", "state", "what", "rows", "take away", "by"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, runs.map((run) => h("tr", { key: run.run_id },
        h("td", { class: "time" }, date(run.started_ms)), h("td", { class: run.state === "failed" ? "bad" : "" }, run.state),
        h("td", { class: "wide" }, h("a", { href: `#run/${encodeURIComponent(run.run_id)}` }, `${run.kind}: ${nameOf(state, run.instrument_id)} ${run.command}`)),
        h("td", { class: "wide" }, plural(run.rows, "row")), h("td", { class: "wide" }, files(run.run_id)), h("td", { class: "who wide" }, run.who ?? ""))))))
      : h("p", { class: "faint" }, state.runs ? "Nothing was recorded yet." : "…"))];
}

function files(id) {
  const at = (name) => `/bench/runs/${encodeURIComponent(id)}/${name}`;
  return h("p", { class: "bar" }, [["CSV", "data.csv"], ["npz", "data.npz"], ["report", "report.html"]].map(([label, name]) => h("a", { href: at(name), class: "button quiet", download: "", "aria-label": `${label} of ${id}` }, label)));
}

export function runView(state, id, act, plot) {
  const shown = state.shown?.run_id === id ? state.shown : null;
  const live = runsOf(state).find((one) => one.id === id);
  if (!shown) return [h("section", { key: `run ${id}` }, h("h2", { class: "title" }, id), h("p", { class: "faint" }, state.shownError ?? "…"))];
  const listed = state.runs?.find((one) => one.run_id === id);
  const title = live ? [live.units[0], live.what] : listed ? [listed.instrument_id, listed.command] : null;
  const isExperiment = shown.kind === "experiment";
  const parts = Object.entries(shown.parameters ?? {}).map(([name, one]) => `${name} ${one}`);
  return [h("section", { key: `run ${id}`, "aria-label": `Run ${id}` },
    h("h2", { class: "title" }, title ? `${isExperiment ? "" : nameOf(state, title[0])} ${title[1]}` : id),
    h("p", { class: "faint" }, [id, `${shown.kind}, ${shown.state}${shown.reason ? `: ${shown.reason}` : ""}`, ...parts].join(" · ")),
    h("div", { key: "live" }, live ? runHead(state, live, act) : null),
    isExperiment ? experimentView(state, id, live, act) : null,
    shown.error ? h("p", { class: "bad" }, typeof shown.error === "string" ? shown.error : shown.error.message ?? "") : null,
    h("ul", { class: "remarks" }, (shown.notes ?? []).map((note) => h("li", null, typeof note === "string" ? note : note.text ?? JSON.stringify(note)))),
    plot ?? null),
  h("section", { key: "away", class: "half", "aria-label": "Take away" }, h("h2", null, "Take away"), files(id)),
  statistics(shown), table(shown)].filter(Boolean);
}

function statistics(run) {
  const known = Object.entries(run.statistics ?? {}).filter(([name, one]) => one && typeof one.mean === "number" && !TIMES.has(name) && !(run.kind === "experiment" && /^n_|^attempt$/.test(name)));
  if (!known.length || isOfTraces(run)) return null;
  const unit = (name) => run.units?.[run.columns.indexOf(name)] ?? "";
  return h("section", { key: "figures", class: "half" }, h("h2", null, "Figures"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of the columns" }, h("table", null,
    h("thead", null, h("tr", null, ["column", "mean", "std", "min", "max", "n"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, known.map(([name, one]) => h("tr", { key: name }, h("th", { scope: "row" }, name),
      ["mean", "std", "min", "max"].map((figure) => h("td", { class: "number" }, text(one[figure], unit(name)))), h("td", { class: "number" }, String(one.n))))))));
}

function table(run) {
  const last = run.rows.slice(-20);
  return h("details", { key: "rows" }, h("summary", null, `The last ${plural(last.length, "row")} of ${run.total_rows}`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" }, h("table", null,
      h("thead", null, h("tr", null, run.columns.map((name, i) => h("th", { scope: "col" }, run.units?.[i] ? `${name} [${run.units[i]}]` : name)))),
      h("tbody", null, last.map((row) => h("tr", null, row.map((cell) => h("td", { class: "number" }, cell === null ? "" : String(cell)))))))));
}
