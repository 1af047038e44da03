// The bench at a glance: what is wrong, who waits for a yes, each unit, and what runs. From plain
// data; what is pressed is told to `act`.

import { h } from "./dom.js";
import { age, byName, clock, measured, plural, text } from "./format.js";
import { experimentBar, progressText, questionCard, shareOf } from "./experiment.js";

const FRESH_MS = 5000;
const OLD_MS = 60000;
const MOST_VALUES = 6;
const MOST_KEPT = 1000;
// What an experiment's view knows before the status of the bench does.
const OVER = ["completed", "stopped", "failed"];

// Lines about what a person has to look at.
export function troubles(state) {
  const { status } = state;
  if (!status) return [];
  const name = (id) => nameOf(state, id);
  const found = [];
  const wrong = (text) => found.push(h("li", { class: "bad" }, text));
  for (const rule of status.interlocks) {
    if (rule.reason) wrong(`Interlock ${rule.name} tripped: ${rule.reason}`);
    else if (rule.unknown.length) wrong(`Interlock ${rule.name}: nothing here is called ${rule.unknown.join(", ")}`);
  }
  for (const one of status.dead_man) {
    if (one.state === "tripped") wrong(`${name(one.instrument_id)}: its dead-man has switched the outputs off; clear it at the instrument: ${one.clear}`);
  }
  for (const id of status.stopping) wrong(`${name(id)}: its stop is tried until it is confirmed`);
  for (const sweep of [...status.sweeps, ...status.needs_attention]) {
    if (sweep.needs_attention) wrong(`${name(sweep.instrument_id)}: the abort of ${sweep.sweep_id} was not confirmed; its output may be on`);
  }
  for (const line of status.troubled_lines) wrong(`${name(line.instrument_id)} is ${line.state}: ${line.reason}`);
  if (status.store.state !== "healthy") wrong(`The record is ${status.store.state}: ${status.store.reason}`);
  return found.length ? [h("section", { key: "troubles", class: "troubles", "aria-label": "What is wrong" }, h("ul", null, found))] : [];
}

export function approvals(state, act) {
  const waiting = state.status?.approvals ?? [];
  if (!waiting.length) return [];
  return [h("section", { key: "approvals", class: "asks", "aria-label": "What waits for a yes" },
    h("h2", null, "Waits for a person"),
    waiting.map((one) => h("article", { key: one.approval_id, class: "card" },
      h("p", null, h("b", null, one.who), " wants ", h("b", null, one.tool), " on ", h("b", null, one.instrument), `, until ${clock(one.expires_ms)}`),
      h("pre", null, one.text),
      state.key && isAnsweredHere(state, one)
        ? h("p", { class: "bar" },
          h("button", { type: "button", class: "yes", on: { click: () => act.answer("approve", { id: one.approval_id }) } }, "Approve"),
          h("button", { type: "button", class: "no", on: { click: () => act.answer("deny", { id: one.approval_id }) } }, "Deny"))
        : h("p", { class: "faint" }, howAnswered(state, one)))))];
}

function isAnsweredHere(state, question) {
  return state.facts.mode === "full" && question.ways.includes("page");
}

function howAnswered(state, question) {
  if (isAnsweredHere(state, question)) return "To answer here, open the page with edged open --full.";
  if (question.ways.includes("cli")) return `To answer: edged approve ${question.approval_id}`;
  if (question.ways.includes("client")) return "Its owner has it answered in the client that asks.";
  return `Its owner has it answered on the bench page alone${state.facts.mode === "read" ? ", and BENCH_PAGE is read: nobody can answer" : ""}.`;
}

export function units(state) {
  const count = state.instruments.length;
  const live = state.instruments.filter((unit) => outputsOf(state, unit.id).length).length;
  const sorted = [...state.instruments].sort((a, b) => byName(nameOf(state, a.id), nameOf(state, b.id)));
  return h("section", { key: "units", "aria-label": "Instruments" },
    h("h2", null, plural(count, "instrument"), live ? `, ${live} with outputs on` : ""),
    count ? null : h("p", { class: "faint" }, state.status ? "None was found yet: edged scan looks, edged doctor says what is missing." : "…"),
    h("div", { class: "units" }, sorted.map((unit) => card(state, unit))));
}

function card(state, unit) {
  const outputs = outputsOf(state, unit.id);
  const values = newest(valuesOf(state, unit.id), MOST_VALUES);
  return h("article", { key: unit.id, class: `card unit ${unit.is_connected ? "" : "away"} ${outputs.length ? "on" : ""}` },
    h("h3", null, h("a", { href: `#unit/${encodeURIComponent(unit.alias || unit.id)}` }, unit.alias || unit.model),
      h("span", { class: `state ${unit.state}` }, unit.state)),
    h("p", { class: "faint" }, [unit.manufacturer, unit.model, unit.location].filter(Boolean).join(" · ")),
    on(outputs),
    values.length
      ? h("dl", { class: "values" }, values.map((one) => value(state, one)))
      : h("p", { class: "faint" }, "nothing measured yet"),
    remarkList(state, unit));
}

// What is on, as the record tells it; "*": something, nobody knows which.
export function on(outputs) {
  return outputs.length ? h("p", { class: "live" }, "ON: ", outputs.map((one) => (one === "*" ? "any output (state unknown)" : one)).join(", ")) : null;
}

// The newest so many, in an order that does not change while they are measured.
export function newest(values, most) {
  const kept = [...values].sort((a, b) => b.time_ms - a.time_ms).slice(0, most);
  return kept.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

// One value: what it is and how old, and below that the number. What is shown of an engine that is
// away is old, whatever its age.
export function value(state, one) {
  const [number, unit] = measured(one.value, one.unit);
  const old = state.now - one.time_ms;
  const kind = state.isOpen === false || old >= OLD_MS ? "old" : old < FRESH_MS ? "fresh" : "";
  return h("div", { key: keyOf(one), class: kind },
    h("dt", null, labelOf(one)),
    h("dd", null, h("span", { class: typeof one.value === "string" ? "words" : "number" }, number), " ", h("span", { class: "unit-of" }, unit)),
    h("dd", { class: "age" }, `${age(old)} ago`));
}

// Takes values among those that are known; those of what was not measured for longest are forgotten.
export function kept(values, list) {
  for (const one of list) {
    const key = keyOf(one);
    values.delete(key);
    values.set(key, one);
    if (values.size > MOST_KEPT) values.delete(values.keys().next().value);
  }
}

function labelOf(one) {
  const parts = Object.entries(one.parameters ?? {}).map(([name, v]) => `${name} ${v}`);
  return [one.command.replace(/^measure_/, "").replaceAll("_", " ") + (one.column ? ` ${one.column}` : ""), ...parts].join(", ");
}

function keyOf(one) {
  return JSON.stringify([one.instrument_id, one.command, one.column ?? "", one.parameters ?? {}]);
}

// Who has it, what holds it back: [kind, line] each; kind is "", "hold" or "bad".
function remarks(state, unit) {
  const { status } = state;
  if (!status) return [];
  const lines = [];
  for (const lock of status.lockouts) if (lock.instrument_id === unit.id) lines.push(["hold", `locked out by ${lock.by}: ${lock.reason}`]);
  const lease = leaseOf(state, unit.id);
  if (lease) lines.push(["hold", `reserved by ${lease.who} until ${clock(lease.expires_ms)}${lease.purpose ? ` for ${lease.purpose}` : ""}`]);
  for (const run of runsOf(state)) {
    if (run.units.includes(unit.id)) lines.push(["", `in use: ${run.what} of ${run.who ?? "somebody"}`]);
  }
  for (const one of status.dead_man) if (one.instrument_id === unit.id && one.state !== "tripped") lines.push(["", `its dead-man runs: ${one.dead_man_s} s`]);
  for (const one of status.budgets) {
    if (one.instrument_id === unit.id) lines.push(["", `${one.command}: ${one.spent} sent in the last hour${one.per_hour ? ` of ${one.per_hour}` : ""}${one.wait_s ? `, again in ${Math.ceil(one.wait_s)} s` : ""}`]);
  }
  if (!unit.is_connected && unit.heard_ms) lines.push(["bad", `last heard ${age(state.now - unit.heard_ms)} ago`]);
  if (unit.warning) lines.push(["bad", unit.warning]);
  return lines;
}

export function remarkList(state, unit) {
  const lines = remarks(state, unit);
  return lines.length ? h("ul", { class: "remarks" }, lines.map(([kind, line]) => h("li", { class: kind }, line))) : null;
}

// What runs, each with its plot where one is shown.
export function running(state, act, plots) {
  const runs = runsOf(state);
  const title = runs.length ? `${plural(runs.length, "run")} under way` : "Nothing runs";
  return h("section", { key: "running", class: "half", "aria-label": "What runs" }, h("h2", null, title),
    runs.map((run) => h("article", { key: run.id, class: "card run" }, runHead(state, run, act, true), plots.get(run.id) ?? null)));
}

export function runHead(state, run, act, isLinked) {
  const name = run.kind === "experiment" ? run.what : `${nameOf(state, run.units[0])} ${run.what}`;
  return [
    isLinked ? h("h3", null, h("a", { href: `#run/${encodeURIComponent(run.id)}` }, name), h("span", { class: `state ${run.status}` }, run.status)) : null,
    h("div", { key: "asks" }, questionCard(state, run.id, run.question, act)),
    h("div", { class: "head" },
      h("div", null,
        run.set ? h("p", { class: "set" }, run.set) : null,
        h("p", { class: "faint" }, [run.said, run.who && `by ${run.who}`].filter(Boolean).join(" · "))),
      h("div", { class: "bar" },
        h("button", { type: "button", class: "no", on: { click: () => act.stopRun(run.id, false) } }, `Stop ${run.kind}`),
        run.kind === "sweep" && state.facts.mode === "full" && run.status === "running"
          ? h("button", { type: "button", on: { click: () => act.stopRun(run.id, true) } }, "Hold here") : null,
        run.kind === "experiment" ? experimentBar(state, run, act) : null)),
    run.share === null ? null : h("progress", { max: 1, value: run.share, "aria-label": `how far ${run.id} is` }),
  ];
}

// Every run in one form.
export function runsOf(state) {
  const { status } = state;
  if (!status) return [];
  const sweeps = status.sweeps.filter((one) => ["running", "holding", "stopping"].includes(one.status)).map((one) => ({
    id: one.sweep_id, kind: "sweep", units: [one.instrument_id], what: one.command_name, status: one.status, who: one.who,
    set: text(one.set_value, one.unit),
    said: `${text(one.start_value, one.unit)} to ${text(one.target_value, one.unit)} at ${text(one.sweep_rate, `${one.unit}/s`)}${one.why_late ? `; ${one.why_late}` : ""}`,
    share: one.steps + one.steps_left > 0 ? one.steps / (one.steps + one.steps_left) : null,
  }));
  const streams = status.streams.map((one) => ({
    id: one.stream_id, kind: "stream", units: [one.instrument_id], what: one.command_name, status: one.status ?? "running", who: one.who,
    said: `every ${one.interval_ms / 1000} s, ${plural(one.count, "point")}`, share: null,
  }));
  const sequences = status.sequences.map((one) => ({
    id: one.run_id, kind: "sequence", units: [one.instrument_id], what: one.sequence_name, status: one.status ?? "running", who: one.who,
    said: `${plural(one.steps_executed, "step")} done`, share: null,
  }));
  const experiments = status.experiments.map((one) => {
    const view = state.views.get(one.run_id), now = { ...one, done: one.rows, ...view?.status };
    return {
      id: one.run_id, kind: "experiment", units: one.instrument_ids, what: one.experiment, status: now.state, who: one.who, question: now.question,
      said: [progressText(now), now.reason].filter(Boolean).join(" · "), share: shareOf(now, view?.dimensions),
    };
  });
  // Who is asked sees that first.
  experiments.sort((a, b) => Boolean(b.question) - Boolean(a.question));
  return [...experiments.filter((one) => !OVER.includes(one.status)), ...sweeps, ...sequences, ...streams];
}

export function nameOf(state, id) {
  const unit = state.instruments.find((one) => one.id === id || one.alias === id);
  return unit?.alias || unit?.model || id;
}

/** What was told to put something out, of one unit or of all, and is not known to be off since. */
export function outputsOf(state, id) {
  const told = (state.status?.told_on ?? []).filter((one) => id === undefined || one.instrument_id === id);
  return told.flatMap((one) => one.outputs.filter((output) => !one.off.includes(output)));
}

// Who has reserved a unit, if anybody.
export function leaseOf(state, id) {
  const alias = state.instruments.find((one) => one.id === id)?.alias;
  return state.status?.leases.find((lease) => lease.instruments.some((one) => one === id || (alias && one === alias)));
}

export function valuesOf(state, id) {
  return [...state.values.values()].filter((one) => one.instrument_id === id);
}
