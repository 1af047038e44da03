// One unit: its values, what it can do as forms made from the commands' schemas, what its line says.

import { h } from "./dom.js";
import { age, fine, plural, seen, text } from "./format.js";
import { leaseOf, nameOf, newest, on, outputsOf, remarkList, value, valuesOf } from "./bench.js";
import { recordTable } from "./record.js";

const MOST_VALUES = 40;
const ARROWS = { sent: "→", received: "←", discarded: "✗", note: "·" };

export function unitView(state, name, act) {
  const unit = state.instruments.find((one) => one.alias === name || one.id === name);
  if (!unit) return [h("h2", { key: "none", class: "title" }, state.status ? `No instrument here is called ${name}.` : "…")];
  const about = [["maker", unit.manufacturer], ["model", unit.model], ["serial number", unit.serial], ["firmware", unit.firmware], ["address", unit.address?.split("::").map((part, index) => (index ? ["::", h("wbr"), part] : part))], ["profile", unit.profile_name],
    ["place", unit.location], ["last heard", unit.heard_ms ? `${age(state.now - unit.heard_ms)} ago` : "never"]];
  const mayRun = state.facts.mode === "full";
  const lease = leaseOf(state, unit.id);
  const values = newest(valuesOf(state, unit.id), MOST_VALUES);
  return [
    h("section", { key: `about ${unit.id}`, class: "unit whole", "aria-label": nameOf(state, unit.id) },
      h("h2", { class: "title named" }, nameOf(state, unit.id), h("span", { class: `state ${unit.state}` }, unit.state)),
      on(outputsOf(state, unit.id)),
      remarkList(state, unit),
      lease && state.key && mayRun ? h("p", { class: "bar" }, h("button", { type: "button", class: "no", on: { click: () => act.answer("break", { lease: unit.alias || unit.id, reason: "broken on the page" }) } }, "Break this lease")) : null,
      h("dl", { class: "values" }, values.map((one) => value(state, one))),
      h("dl", { class: "about" }, about.filter(([, said]) => said).map(([label, said]) => h("div", null, h("dt", null, label), h("dd", null, said))))),
    commands(state, unit, act),
    h("div", { key: "told", class: "half" },
      trace(state, unit),
      recordTable(state, state.record.filter((row) => row.instrument_id === unit.id).slice(0, 12), "Record of it")),
  ];
}

// What went over its line and came back, the newest first.
function trace(state, unit) {
  const told = state.traces.get(unit.id);
  return h("section", { key: "trace", "aria-label": "Trace" }, h("h2", null, "Trace of its line"),
    !told ? h("p", { class: "faint" }, "…") : !told.length ? h("p", { class: "faint" }, "nothing yet")
      : h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Trace, a table" }, h("table", { class: "trace" },
        h("thead", null, h("tr", null, ["time", "", "what", "bytes"].map((label) => (label ? h("th", { scope: "col" }, label) : h("td", null))))),
        h("tbody", null, told.map((one) => h("tr", null,
          h("td", { class: "time" }, fine(one.timestamp_ms)), h("td", { class: "to", "aria-label": one.direction }, ARROWS[one.direction] ?? one.direction),
          h("td", { class: "scpi" }, seen(one.text)), h("td", { class: "number" }, String(one.bytes))))))));
}

function commands(state, unit, act) {
  const told = state.capabilities.get(unit.id);
  if (!told) return h("section", { key: "commands", class: "half" }, h("h2", null, "Commands"), h("p", { class: "faint" }, "…"));
  const mayRun = state.facts.mode === "full";
  return h("section", { key: "commands", class: "half commands", "aria-label": "Commands" }, h("h2", null, "Commands"),
    mayRun ? leaseField(state, unit, act) : h("p", { class: "faint" }, "To run them here, BENCH_PAGE has to be full. That keeps a visitor from mistakes and guards nothing: programs and agents run them by the MCP endpoint."),
    told.commands.map((command) => h("details", { key: command.name },
      h("summary", null, h("b", null, command.name.replaceAll("_", " ")), " ",
        command.is_dangerous ? h("span", { class: "state bad" }, "dangerous") : null, command.is_safe ? h("span", { class: "state ready" }, "makes safe") : null,
        h("span", { class: "faint" }, command.description)),
      mayRun ? form(state, unit, command, act) : parameters(command))));
}

function leaseField(state, unit, act) {
  if (!leaseOf(state, unit.id)) return null;
  return h("p", { key: "lease" }, h("label", null, "Lease id, if you hold it ", h("input", { type: "password", autocomplete: "off", size: 24, value: state.lease, on: { input: (event) => act.useLease(event.target.value.trim()) } })));
}

function parameters(command) {
  const known = Object.entries(command.parameters.properties ?? {});
  return h("ul", null, known.length ? known.map(([name, schema]) => h("li", null, h("b", null, name), ` ${schema.description ?? ""} ${bounds(schema)}`)) : h("li", null, "no parameters"));
}

function bounds(schema) {
  if (schema.enum) return schema.enum.length > 12 ? "" : `one of ${schema.enum.join(", ")}`;
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  return low === undefined && high === undefined ? "" : `${low ?? "…"} to ${high ?? "…"}`;
}

function form(state, unit, command, act) {
  const required = new Set(command.parameters.required ?? []);
  const fields = Object.entries(command.parameters.properties ?? {});
  const said = state.said.get(`${unit.id} ${command.name}`);
  const submit = (event) => {
    event.preventDefault();
    const given = {};
    for (const [name, schema] of fields) {
      const field = event.target.elements.namedItem(name);
      const typed = schema.type === "boolean" ? field.checked : field.value;
      if (typed === "") continue;
      given[name] = schema.enum ? schema.enum.find((one) => String(one) === typed) : schema.type === "integer" || schema.type === "number" ? Number(typed) : typed;
    }
    act.run(unit, command, given, event.submitter?.value === "dry");
  };
  return h("form", { on: { submit } },
    fields.map(([name, schema]) => h("div", { key: name }, h("label", null, h("span", null, name, required.has(name) ? "" : " (optional)"), input(name, schema, required.has(name))),
      h("p", { class: "faint" }, `${schema.description ?? ""} ${bounds(schema)}`.trim()))),
    h("p", { class: "bar" }, h("button", { type: "submit", value: "run", class: command.is_dangerous ? "no" : "yes" }, command.is_query ? "Read" : "Send"),
      h("button", { type: "submit", value: "dry", class: "quiet" }, "What would be sent?")),
    h("p", { role: "status", class: said?.bad ? "bad" : "" }, said?.text ?? ""),
    said?.picture ? h("img", { src: said.picture, alt: `What ${nameOf(state, unit.id)} has sent` }) : null);
}

function input(name, schema, isRequired) {
  if (schema.enum) return h("select", { name }, isRequired ? null : h("option", { value: "" }, ""), schema.enum.map((one) => h("option", { value: String(one), selected: one === schema.default }, String(one))));
  if (schema.type === "boolean") return h("input", { type: "checkbox", name, checked: schema.default === true });
  if (schema.type === "number" || schema.type === "integer") {
    return h("input", { type: "number", name, required: isRequired, min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any", value: schema.default ?? "" });
  }
  return h("input", { type: "text", name, required: isRequired, maxlength: 1000, value: schema.default ?? "" });
}

// What came of a command, in a line.
export function outcomeText(told, isDry, returns) {
  if (isDry) return [`would send: ${told.would_send.join(" ⏎ ") || "nothing"}`, ...told.conflicts.map((one) => one.message), ...told.needs.map((one) => `needs ${one}`)].join(". ");
  const data = told.data;
  if (returns?.type === "image") return `${data.mime}, ${plural(data.length, "byte")}${data.uri ? `: ${data.uri}` : ""}`;
  if (returns?.type === "waveform") return `${plural(data.y_length, "sample")} in ${data.y_unit}, ${text(data.x_increment, data.x_unit)} apart`;
  const units = new Map((returns?.fields ?? []).map((one) => [one.name, one.unit]));
  if (data !== null && typeof data === "object" && !Array.isArray(data)) return "set" in data ? "done" : Object.entries(data).map(([name, one]) => `${name} ${text(one, units.get(name))}`).join(", ");
  return data === null || data === undefined ? "done" : text(data, told.unit ?? "");
}
