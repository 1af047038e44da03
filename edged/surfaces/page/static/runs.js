// Recordings: the list, and one with its plot, its figures and what can be taken away.

import { h } from "./dom.js";
import { date, plural, text } from "./format.js";
import { nameOf, runHead, runsOf } from "./bench.js";

export function runsView(state) {
  const runs = state.runs ?? [];
  return [h("section", { key: "runs", "aria-label": "Recordings" }, h("h2", null, "Recordings"),
    runs.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Recordings, a table" }, h("table", null,
      h("thead", null, h("tr", null, ["began", "what", "by", "rows", "state", "take away"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, runs.map((run) => h("tr", { key: run.run_id },
        h("td", null, date(run.started_ms)),
        h("td", null, h("a", { href: `#run/${encodeURIComponent(run.run_id)}` }, `${run.kind}: ${nameOf(state, run.instrument_id)} ${run.command}`)),
        h("td", null, run.who ?? ""), h("td", null, String(run.rows)), h("td", null, run.state), h("td", null, files(run.run_id)))))))
      : h("p", { class: "faint" }, "Nothing was recorded yet."))];
}

function files(id) {
  const at = (name) => `/bench/runs/${encodeURIComponent(id)}/${name}`;
  return [["CSV", "data.csv"], ["npz", "data.npz"], ["report", "report.html"]].map(([label, name]) => [h("a", { href: at(name), class: "file", download: "", "aria-label": `${label} of ${id}` }, label), " "]);
}

export function runView(state, id, act, plot) {
  const shown = state.shown?.run_id === id ? state.shown : null;
  const live = runsOf(state).find((one) => one.id === id);
  if (!shown) return [h("section", { key: `run ${id}` }, h("h2", null, id), h("p", { class: "faint" }, state.shownError ?? "…"))];
  const parts = Object.entries(shown.parameters ?? {}).map(([name, one]) => `${name} ${one}`);
  return [h("section", { key: `run ${id}`, "aria-label": `Run ${id}` },
    h("h2", null, id), live ? runHead(state, live, act) : null,
    h("p", null, `${shown.kind}, ${shown.state}${shown.reason ? `: ${shown.reason}` : ""}${parts.length ? ` · ${parts.join(", ")}` : ""}`),
    shown.error ? h("p", { class: "bad" }, typeof shown.error === "string" ? shown.error : shown.error.message ?? "") : null,
    (shown.notes ?? []).map((note) => h("p", { class: "remark" }, typeof note === "string" ? note : note.text ?? JSON.stringify(note))),
    plot?.element ?? null,
    h("p", { class: "bar" }, files(id)),
    statistics(shown)), table(shown)];
}

function statistics(run) {
  const known = Object.entries(run.statistics ?? {}).filter(([, one]) => one && typeof one.mean === "number");
  if (!known.length) return null;
  const unit = (name) => run.units?.[run.columns.indexOf(name)] ?? "";
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of the columns" }, h("table", null,
    h("thead", null, h("tr", null, ["column", "mean", "std", "min", "max", "n"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, known.map(([name, one]) => h("tr", { key: name }, h("th", { scope: "row" }, name),
      ["mean", "std", "min", "max"].map((figure) => h("td", { class: "number" }, text(one[figure], unit(name)))), h("td", { class: "number" }, String(one.n)))))));
}

function table(run) {
  const last = run.rows.slice(-20);
  return h("details", { key: "rows" }, h("summary", null, `The last ${plural(last.length, "row")} of ${run.total_rows}`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" }, h("table", null,
      h("thead", null, h("tr", null, run.columns.map((name, i) => h("th", { scope: "col" }, run.units?.[i] ? `${name} [${run.units[i]}]` : name)))),
      h("tbody", null, last.map((row) => h("tr", null, row.map((cell) => h("td", { class: "number" }, cell === null ? "" : String(cell)))))))));
}

