// What was done and sent: the newest first, instrument text as text.

import { h } from "./dom.js";
import { clock } from "./format.js";
import { nameOf } from "./bench.js";

// rows: [{time_ms, who, tool, instrument_id, command, scpi, outcome, error}]
export function recordTable(state, rows, title, isHalf) {
  return h("section", { key: "record", class: isHalf ? "half" : "", "aria-label": title }, h("h2", null, title),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, a table` },
      h("table", { class: "rows" },
        h("thead", null, h("tr", null, ["time", "unit", "call", "sent", "outcome", "who"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, rows.map((row) => {
          const tone = row.outcome === "ok" ? "" : "bad";
          return h("tr", null,
            h("td", { class: "time" }, clock(row.time_ms)), h("td", { class: "name" }, row.instrument_id ? nameOf(state, row.instrument_id) : ""),
            h("td", { class: `wide ${tone}` }, row.command || row.tool, row.command && row.command !== row.tool && row.tool !== "execute_command" ? h("span", { class: "faint" }, row.tool) : null),
            h("td", { class: "scpi wide" }, (row.scpi ?? "").replaceAll("\n", " ⏎ ")),
            h("td", { class: tone ? "wide bad outcome" : "ok" }, row.outcome, row.error ? `: ${typeof row.error === "string" ? row.error : row.error.message ?? row.error.code ?? ""}` : ""),
            h("td", { class: "who wide", title: row.who }, (row.who ?? "").replace(/^Mozilla\/.*(?= at )/, "a browser")));
        }))))
      : h("p", { class: "faint" }, "nothing yet"));
}

// A row as the topic audit tells it, in the form of bench__history; null for what that leaves out.
export function rowOf(data) {
  if (data.phase === "intent" || data.phase === "event") return null;
  return {
    time_ms: data.time_ms, who: data.client ? `${data.client}${data.remote ? ` at ${data.remote}` : ""}` : data.route === "internal" ? "edged itself" : data.remote,
    tool: data.tool, instrument_id: data.instrument_id ?? data.instrument, command: data.command, scpi: data.scpi, outcome: data.outcome, error: data.error,
  };
}
