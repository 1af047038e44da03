// One unit: its values, what it can do as forms made from the commands' schemas, its own record.

import { h } from "./dom.js";
import { age, text } from "./format.js";
import { nameOf, outputsOf, remarks, value, valuesOf } from "./bench.js";
import { recordTable } from "./record.js";

export function unitView(state, name, act) {
  const unit = state.instruments.find((one) => one.alias === name || one.id === name);
  if (!unit) return [h("h2", { key: "none" }, `No instrument here is called ${name}.`)];
  const outputs = outputsOf(state, unit.id);
  const about = [["maker", unit.manufacturer], ["model", unit.model], ["serial number", unit.serial], ["firmware", unit.firmware], ["address", unit.address], ["profile", unit.profile_name],
    ["state", unit.state], ["last heard", unit.heard_ms ? `${age(state.now - unit.heard_ms)} ago` : "never"]];
  const mayRun = state.facts.mode === "full";
  const lease = state.status?.leases.find((one) => one.instruments.some((id) => id === unit.alias || id === unit.id));
  return [
    h("section", { key: `about ${unit.id}`, "aria-label": nameOf(state, unit.id) },
      h("h2", null, nameOf(state, unit.id)),
      outputs.length ? h("p", { class: "live" }, "ON: ", outputs.join(", ")) : null,
      h("dl", { class: "about" }, about.filter(([, said]) => said).map(([label, said]) => h("div", null, h("dt", null, label), h("dd", null, said)))),
      remarks(state, unit).map((line) => h("p", { class: "remark" }, line)),
      lease && state.key && mayRun ? h("p", { class: "bar" }, h("button", { type: "button", class: "no", on: { click: () => act.answer("break", { lease: unit.alias || unit.id, reason: "broken on the page" }) } }, "Break this lease")) : null,
      h("dl", { class: "values big" }, valuesOf(state, unit.id).map((one) => value(state, one)))),
    commands(state, unit, act),
    recordTable(state, state.record.filter((row) => row.instrument_id === unit.id).slice(0, 30), "What was sent to it"),
  ];
}

function commands(state, unit, act) {
  const told = state.capabilities.get(unit.id);
  if (!told) return h("section", { key: "commands" }, h("h2", null, "Commands"), h("p", { class: "faint" }, "…"));
  const mayRun = state.facts.mode === "full";
  return h("section", { key: "commands", "aria-label": "Commands" }, h("h2", null, "Commands"),
    mayRun ? leaseField(state, act) : h("p", { class: "faint" }, "To run them here, BENCH_PAGE has to be full; programs and agents run them by the MCP endpoint."),
    told.commands.map((command) => h("details", { key: command.name, class: "card" },
      h("summary", null, h("b", null, command.name.replaceAll("_", " ")), " ", h("span", { class: "faint" }, command.description),
        command.is_dangerous ? h("span", { class: "state bad" }, "dangerous") : null, command.is_safe ? h("span", { class: "state ready" }, "makes safe") : null),
      mayRun ? form(state, unit, command, act) : parameters(command))));
}

function leaseField(state, act) {
  return h("p", { key: "lease" }, h("label", null, "Lease id, if you hold one ", h("input", { type: "password", autocomplete: "off", size: 24, on: { input: (event) => act.useLease(event.target.value.trim()) } })));
}

function parameters(command) {
  const known = Object.entries(command.parameters.properties ?? {});
  return h("ul", null, known.length ? known.map(([name, schema]) => h("li", null, h("b", null, name), ` ${schema.description ?? ""} ${bounds(schema)}`)) : h("li", null, "no parameters"));
}

function bounds(schema) {
  if (schema.enum) return `one of ${schema.enum.join(", ")}`;
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
      const field = event.target.elements[name];
      const typed = schema.type === "boolean" ? field.checked : field.value;
      if (typed === "") continue;
      given[name] = schema.type === "integer" || schema.type === "number" ? Number(typed) : typed;
    }
    act.run(unit, command, given, event.submitter?.value === "dry");
  };
  return h("form", { on: { submit } },
    fields.map(([name, schema]) => h("p", null, h("label", null, h("span", null, name, required.has(name) ? "" : " (optional)"), " ", input(name, schema, required.has(name))),
      h("span", { class: "faint" }, ` ${schema.description ?? ""} ${bounds(schema)}`))),
    h("p", { class: "bar" }, h("button", { type: "submit", value: "run", class: command.is_dangerous ? "no" : "yes" }, command.is_query ? "Read" : "Send"),
      h("button", { type: "submit", value: "dry", class: "quiet" }, "What would be sent?")),
    h("p", { role: "status", class: said?.bad ? "bad" : "" }, said?.text ?? ""));
}

function input(name, schema, isRequired) {
  if (schema.enum) return h("select", { name }, isRequired ? null : h("option", { value: "" }, ""), schema.enum.map((one) => h("option", { value: one, selected: one === schema.default }, String(one))));
  if (schema.type === "boolean") return h("input", { type: "checkbox", name, checked: schema.default === true });
  if (schema.type === "number" || schema.type === "integer") {
    return h("input", { type: "number", name, required: isRequired, min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any", value: schema.default ?? "" });
  }
  return h("input", { type: "text", name, required: isRequired, maxlength: 1000, value: schema.default ?? "" });
}

// What came of a command, in a line.
export function outcomeText(told, isDry) {
  if (isDry) return [`would send: ${told.would_send.join(" ⏎ ") || "nothing"}`, ...told.conflicts.map((one) => one.message), ...told.needs.map((one) => `needs ${one}`)].join(". ");
  const data = told.data;
  if (data !== null && typeof data === "object" && !Array.isArray(data)) return "set" in data ? "done" : Object.entries(data).map(([name, one]) => `${name} ${text(one)}`).join(", ");
  return data === null || data === undefined ? "done" : text(data, told.unit ?? "");
}
