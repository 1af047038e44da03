// The page: what is known, which view is shown, and what is done about what is pressed.

import { fill, h } from "./dom.js";
import { Link } from "./link.js";
import { Figures } from "./figures.js";
import { drawnOf, readOn } from "./reader.js";
import { Stop } from "./stop.js";
import { approvals, kept, leaseOf, nameOf, outputsOf, running, runsOf, troubles, units } from "./bench.js";
import { age } from "./format.js";
import { recordTable, rowOf } from "./record.js";
import { outcomeText, unitView } from "./unit.js";
import { MOST_RUNS, runView, runsView } from "./runs.js";

const VIEWS = [["bench", "Bench"], ["runs", "Recordings"], ["record", "Record"]];
const REFRESH_MS = 5000;
const ANSWERS_WITHIN_MS = 5000;
const SOON_MS = 300;
const FINALLY_MS = 3600000;
const SPACED_MS = 1000;
const MOST_ROWS = 300;
const MOST_NEWEST = 12;
const MOST_PLOTS = 3;

const facts = JSON.parse(document.querySelector('meta[name="edged"]').content);
const $ = (id) => document.getElementById(id);
const state = {
  facts, key: takeKey(), isOpen: null, why: "", since: Date.now(), ahead: 0, now: Date.now(), status: null, instruments: [], values: new Map(),
  record: [], runs: null, shown: null, lease: "", capabilities: new Map(), traces: new Map(), views: new Map(), replies: new Map(), said: new Map(), error: "", leftOut: -Infinity,
};
const plots = new Map();
const link = new Link(facts, { state: opened, event: heard, values: measured, missed, clock(ahead) { state.ahead = ahead; } });
const stop = new Stop($("stop"), $("stopped"), (tool, args, within) => link.call(tool, args, within), (id) => nameOf(state, id));

// The page's key came in the address; it is kept in this tab's memory and nowhere else.
function takeKey() {
  const found = /(?:^#|&)key=([0-9a-f]{32})$/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", location.pathname + location.search);
  return found[1];
}

function route() {
  const [view, ...rest] = location.hash.replace(/^#/, "").split("/");
  let name = rest.join("/");
  try {
    name = decodeURIComponent(name);
  } catch {
    // Typed by hand; then it is what it is.
  }
  return { view: view || "bench", name };
}

// What is heard

function opened(isOpen, why = "") {
  answering(isOpen, why);
  if (isOpen) {
    state.capabilities.clear();
    refresh();
    readRecord();
  }
  draw();
}

// Whether the engine answers; a socket that is open says nothing of that.
function answering(isOpen, why = "") {
  if (isOpen !== state.isOpen) state.since = Date.now();
  Object.assign(state, { isOpen, why });
}

// More was done than a page is told at once: it says so, and who looks at the record gets it anew.
let reading = 0;
function missed(topics) {
  if (!topics.audit) return;
  state.leftOut = Date.now();
  if (route().view === "record") reading ||= setTimeout(() => { reading = 0; readRecord(); }, REFRESH_MS);
}

function heard(topic, _name, data) {
  if (topic === "audit") {
    const row = rowOf(data);
    if (row) {
      state.record.unshift(row);
      state.record.length = Math.min(state.record.length, MOST_ROWS);
    }
  }
  // What a run writes at each of its steps is in its plot.
  if (topic !== "stream" && !(topic === "audit" && data.on_behalf_of)) refreshSoon();
  draw();
}

function measured(list) {
  kept(state.values, list);
  draw();
}

// What is asked

let soon = 0, refreshed = 0;
function refreshSoon() {
  soon ||= setTimeout(refresh, Math.max(SOON_MS, refreshed + SPACED_MS - Date.now()));
}

let refreshing = false;
async function refresh() {
  clearTimeout(soon);
  soon = 0;
  if (refreshing) return void (soon = setTimeout(refresh, SOON_MS));
  refreshing = true;
  refreshed = Date.now();
  try {
    const [status, told] = await Promise.all([link.call("get_status", {}, ANSWERS_WITHIN_MS), link.call("list_instruments", {}, ANSWERS_WITHIN_MS)]);
    Object.assign(state, { status, instruments: told.instruments ?? [], error: "" });
    if (!state.isOpen && link.look) answering(true);
    await Promise.all([readPlots(), readView()]);
  } catch (error) {
    if (error.away) answering(false);
    state.error = error.away ? "" : error.message;
  } finally {
    refreshing = false;
  }
  draw();
}

async function readRecord() {
  try {
    if (!link.look) return;
    state.record = (await link.call("bench__history", { limit: 100, since_s: 86400 })).rows;
  } catch (error) {
    state.error = error.message;
  }
  draw();
}

async function readView() {
  const { view, name } = route();
  if (view === "runs" || (view === "run" && !state.runs)) state.runs = (await link.call("bench__runs", { limit: MOST_RUNS })).runs;
  if (view === "unit") {
    const unit = state.instruments.find((one) => one.alias === name || one.id === name);
    if (unit) await Promise.all([readCapabilities(unit.id), readTrace(unit.id)]);
  }
}

async function readCapabilities(id) {
  if (state.capabilities.has(id)) return;
  const told = await link.call("get_capabilities", { instrument_id: id });
  state.capabilities.set(id, told.capabilities[0]);
}

async function readTrace(id) {
  state.traces.set(id, (await link.get(`/bench/units/${encodeURIComponent(id)}/trace`)).exchanges);
}

// The rows of the runs that are shown; of one under way only what is new.
async function readPlots() {
  const { view, name } = route();
  const live = runsOf(state);
  const wanted = view === "run" ? [name] : view === "bench" ? live.slice(0, MOST_PLOTS).map((one) => one.id) : [];
  for (const [id, one] of plots) {
    if (!wanted.includes(id)) {
      one.plot.end();
      plots.delete(id);
      state.views.delete(id);
    }
  }
  await Promise.all(wanted.map((id) => readRun(id, live.some((one) => one.id === id))));
}

async function readRun(id, isLive) {
  let one = plots.get(id);
  if (one?.isReading || one?.isNone || (one?.known?.isWhole && !isLive)) return;
  if (!one) plots.set(id, one = { plot: new Figures(), known: null });
  one.isReading = true;
  try {
    const call = (tool, args) => link.call(tool, args);
    one.known = await readOn(call, id, one.known);
    one.run = one.known.run;
    if (route().name === id) Object.assign(state, { shown: one.run, shownError: "" });
    if (one.run.kind === "experiment") state.views.set(id, await link.get(`/bench/runs/${encodeURIComponent(id)}/view.json`));
    one.drawn = await drawnOf(call, id, one.known, one.drawn, state.views.get(id));
    one.plot.take(one.drawn);
  } catch (error) {
    if (route().name === id) state.shownError = error.message;
    // Each time it is asked for what is not there is a row of the record.
    one.isNone = error.code === "unknown_run" && !isLive;
  } finally {
    one.isReading = false;
  }
}

// What is done

// The lease that a person holds, for a unit that is reserved: one that has ended is refused.
function leaseFor(id) {
  return leaseOf(state, id) ? state.lease : "";
}

const act = {
  async stopRun(id, hold) {
    const run = runsOf(state).find((one) => one.id === id);
    // An experiment has ended once its `finally` has, which may ramp down for long.
    await tried(() => link.call("bench__stop_run", { run_id: id, hold }, run?.kind === "experiment" ? FINALLY_MS : 20000, leaseFor(run?.units[0])));
  },
  async control(id, action, more = {}, done = () => {}) {
    await tried(async () => {
      await link.call("bench__control_run", { run_id: id, action, ...more }, action === "abort" ? FINALLY_MS : 20000);
      done();
    });
  },
  async reply(id, question, value) {
    const key = `${id} ${question}`;
    if (state.replies.get(key)?.isBusy) return;
    state.replies.set(key, { isBusy: true });
    draw();
    try {
      await link.call("bench__control_run", { run_id: id, action: "answer", value, question });
      state.replies.set(key, { isSent: true });
      setTimeout(readLive, SOON_MS);
    } catch (error) {
      const text = `${error.message} ${error.remedy}`, field = document.querySelector(`[data-ask="${key}"]`);
      state.replies.set(key, { text });
      // The next scan takes the place of what was refused.
      if (field) field.select();
      else state.error = text;
    }
    draw();
  },
  async answer(what, told) {
    await tried(() => link.answer(what, told, state.key));
  },
  useLease(id) {
    state.lease = id;
  },
  async run(unit, command, parameters, isDry) {
    const key = `${unit.id} ${command.name}`;
    state.said.set(key, { text: "…" });
    draw();
    try {
      const told = await link.call("execute_command", { instrument_id: unit.id, command_name: command.name, parameters, ...(isDry ? { dry_run: true } : {}) }, 150000, leaseFor(unit.id));
      const picture = told.picture ?? (told.data?.image && `data:${told.data.mime};base64,${told.data.image}`);
      state.said.set(key, { text: outcomeText(told, isDry, command.returns), picture });
    } catch (error) {
      state.said.set(key, { text: `${error.message} ${error.remedy}`, bad: true });
    }
    refreshSoon();
    draw();
  },
};

async function tried(work) {
  try {
    await work();
    state.error = "";
  } catch (error) {
    state.error = `${error.message} ${error.remedy ?? ""}`.trim();
  }
  refreshSoon();
  draw();
}

// What is shown

let drawing = 0;
function draw() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    state.now = Date.now() + state.ahead;
    show();
  });
}

function show() {
  const { view, name } = route();
  $("name").textContent = `${facts.edge} bench`;
  document.title = `${outputsOf(state).length ? "● " : ""}${facts.edge} bench`;
  fill($("nav"), VIEWS.map(([id, label]) => h("a", { key: id, href: `#${id}`, "aria-current": id === view ? "page" : null }, label)));
  const isAway = state.isOpen === false;
  const said = isAway ? (state.why ? "not live" : "no answer") : state.isOpen ? `live, edged ${facts.version}` : "connecting …";
  if ($("link").textContent !== said) $("link").textContent = said;
  $("link").className = isAway ? "bad" : state.isOpen ? "good" : "";
  $("away").hidden = !isAway;
  $("away").textContent = state.why || `The engine does not answer, for ${age(Date.now() - state.since)} now. What is shown is old. STOP ALL tries for a minute.`;
  const error = state.error ? [h("p", { key: "error", class: "bad", role: "alert" }, state.error)] : [];
  // Where nothing may be seen there is nothing to say of instruments.
  if (state.why && !state.status) return fill($("view"), []);
  fill($("view"), [...error, ...troubles(state), ...approvals(state, act), ...shownView(view, name)]);
  focusQuestion();
}

// Once for each question, and nobody is torn out of another field.
let asked = "";
function focusQuestion() {
  const field = document.querySelector("[data-ask]"), key = field?.dataset.ask ?? "";
  if (key !== asked && !document.activeElement?.matches("input, select")) field?.focus();
  asked = key;
}

function shownView(view, name) {
  const drawn = new Map([...plots].map(([id, one]) => [id, one.drawn?.length ? one.plot.element : null]));
  switch (view) {
    case "unit": return unitView(state, name, act);
    case "runs": return runsView(state);
    case "run": return runView(state, name, act, drawn.get(name));
    case "record": return [recordTable(state, state.record, "Record, the newest")];
    default: return [units(state), running(state, act, drawn), recordTable(state, state.record.slice(0, MOST_NEWEST), `Record, the newest${Date.now() - state.leftOut < 2 * REFRESH_MS ? ", not all" : ""}`, true)];
  }
}

stop.watchKeys(window);
addEventListener("hashchange", () => {
  Object.assign(state, { error: "", shown: null, shownError: null, key: takeKey() || state.key });
  const id = route().name;
  if (plots.has(id) && route().view === "run") state.shown = plots.get(id).run;
  draw();
  refresh();
  $("view").focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(draw, 1000);
setInterval(() => { if (link.look && document.visibilityState === "visible") refresh(); }, REFRESH_MS);
document.addEventListener("visibilitychange", () => { if (link.look) refreshSoon(); });
function readLive() {
  if (state.isOpen && runsOf(state).length) readPlots().then(draw);
}
setInterval(readLive, 1000);
link.start();
draw();
