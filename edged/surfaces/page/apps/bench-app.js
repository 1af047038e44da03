// ui://edged/bench: the bench at a glance, inside a chat; what it shows comes by calls of tools.

import { fill, h } from "./dom.js";
import { Host, useTheme } from "./host.js";
import { Stop } from "./stop.js";
import { approvals, kept, nameOf, running, troubles, units } from "./bench.js";

const AGAIN_MS = 2000;
const $ = (id) => document.getElementById(id);
const state = { facts: { mode: "app" }, key: "", now: Date.now(), status: null, instruments: [], values: new Map(), views: new Map(), replies: new Map(), error: "" };
let isOver = false, ahead = 0;
const host = new Host({
  input() {}, theme: useTheme, end() { isOver = true; },
  result(told) { take(told); show(); },
});
const stop = new Stop($("stop"), $("stopped"), (tool, args, within) => host.call(tool, args, within), (id) => nameOf(state, id));
const act = { async stopRun(id, hold) { await tried(() => host.call("bench__stop_run", { run_id: id, hold })); }, answer() {} };

function take(told) {
  if (told.told_on) state.status = told;
  if (told.instruments) state.instruments = told.instruments;
  for (const one of state.status?.streams ?? []) {
    if (one.last && "value" in one.last) {
      const { value, unit, timestamp_ms: time_ms } = one.last;
      const about = { instrument_id: one.instrument_id, command: one.command_name, time_ms };
      // The unit of several fields is that of one of them.
      kept(state.values, value !== null && typeof value === "object"
        ? Object.entries(value).map(([column, each]) => ({ ...about, column, value: each, unit: "" }))
        : [{ ...about, value, unit: unit ?? "" }]);
      // Its clock may be behind the bench's; what is old must not look young.
      ahead = Math.max(ahead, time_ms - Date.now());
    }
  }
}

async function tried(work) {
  try {
    await work();
    state.error = "";
  } catch (error) {
    state.error = `${error.message} ${error.remedy}`.trim();
  }
  await refresh();
}

async function refresh() {
  try {
    take(await host.call("get_status"));
    take(await host.call("list_instruments"));
    $("link").textContent = "live";
    $("link").className = "";
  } catch (error) {
    $("link").textContent = error.message;
    $("link").className = "bad";
  }
  show();
}

function show() {
  state.now = Date.now() + ahead;
  if (!state.status) return;
  $("name").textContent = `${state.status.edge_name} bench`;
  const error = state.error ? [h("p", { key: "error", class: "bad", role: "alert" }, state.error)] : [];
  fill($("view"), [...error, ...troubles(state), ...approvals(state, act), units(state), running(state, act, new Map())]);
}

stop.watchKeys(window);
await host.start("edged bench");
while (!isOver) {
  if (document.visibilityState === "visible") await refresh();
  await new Promise((done) => setTimeout(done, AGAIN_MS));
}
