// One experiment while it runs: its question, where it stands, its units under test, its buttons.

import { h } from "./dom.js";
import { age, plural } from "./format.js";

const SIGNS = { pass: "✓", marginal: "≈", fail: "✗", error: "!", aborted: "■", incomplete: "…" };
const WORDS = { confirm: ["yes", "no"], pass_fail: ["pass", "fail"] };

export function progressText({ done, total, eta_s }) {
  return [total ? `${done} of ${total} rows` : `${plural(done, "row")} so far`, eta_s && `about ${age(eta_s * 1000)} left`].filter(Boolean).join(", ");
}

// How far it is: by its rows, or by the passes of its outermost loop; null where nobody knows.
export function shareOf({ done, total, loops }, dimensions) {
  if (total) return done / total;
  const [pass, count] = loops?.[dimensions?.find((one) => one.values)?.name]?.split(" of ") ?? [];
  return count ? (pass - 1) / count : null;
}

// What is asked of it is offered where this page may control it.
function mayControl(state, id) {
  return state.facts.mode === "full" && Boolean(state.views.get(id)?.status);
}

// Its field has the focus as soon as it is there (`data-ask`), and Enter in it sends: a scanner types so.
export function questionCard(state, id, question, act) {
  if (!question) return null;
  const key = `${id} ${question.number}`, reply = state.replies.get(key);
  if (reply?.isSent) return null;
  const isOffered = mayControl(state, id);
  const words = question.options ?? WORDS[question.type] ?? [], send = (value) => act.reply(id, question.number, value);
  return h("form", { key, class: "asks ask", on: { submit: (event) => {
    event.preventDefault();
    send(event.target.elements.answer.value);
  } } },
  h("label", null, h("b", null, question.text), !isOffered ? null
    : h("input", { name: "answer", "data-ask": key, autocomplete: "off", maxlength: 500, inputmode: question.type === "number" ? "decimal" : null })),
  !isOffered ? h("p", { class: "faint" }, `To answer: edged experiment answer ${id} VALUE`)
    : h("p", { class: "bar" }, words.map((word, i) => h("button", { type: "button", class: question.options ? "" : ["yes", "no"][i], on: { click: () => send(word) } }, word)), h("button", { type: "submit", class: words.length ? "quiet" : "yes" }, "Send")),
  h("p", { role: "alert", class: "bad" }, reply?.text ?? ""));
}

export function experimentBar(state, run, act) {
  if (!mayControl(state, run.id)) return [];
  const button = (action, said) => h("button", { key: action, type: "button", on: { click: () => act.control(run.id, action) } }, said);
  return [run.status === "paused" ? button("resume", "Resume") : button("pause", "Pause"), state.views.get(run.id).status.can_skip ? button("skip", "Skip this wait") : null];
}

// Where it stands, its units under test, and a field for notes; of one that is over what is left of that.
export function experimentView(state, id, live, act) {
  const { status, tested, verdict: last } = state.views.get(id) ?? {};
  const verdict = status?.verdict ?? last, now = status?.under_test, shown = (tested ?? []).filter((one) => one.unit !== now?.unit || one.try !== now.try);
  const unit = (one, isNow) => h("li", { class: `tone ${isNow ? "" : one.verdict}` }, isNow ? "▶" : SIGNS[one.verdict] ?? "○", " ", h("b", null, one.unit), ` ${isNow ? "under test" : one.verdict}`, one.try > 1 ? `, try ${one.try}` : "", one.failed.length ? `: ${one.failed.join(", ")}` : "");
  return [h("div", { key: "stands" },
    live && status?.step ? h("p", { class: "faint" }, [`at ${status.step}`, ...Object.entries(status.loops).map(([name, place]) => `${name} ${place}`)].join(" · ")) : null,
    verdict && verdict !== "none" ? h("p", { class: `tone ${verdict}` }, `${SIGNS[verdict]} verdict ${live ? "so far " : ""}`, h("b", null, verdict)) : null,
    shown.length || now ? h("ol", { class: "tested", "aria-label": "Units under test" }, shown.map((one) => unit(one)), now ? unit(now, true) : null) : null),
    mayControl(state, id) && status.state === "interrupted" ? h("p", { key: "left", class: "bar" },
      [["resume", "Resume", "yes"], ["abort", "Stop experiment", "no"]].map(([action, said, tone]) => h("button", { type: "button", class: tone, on: { click: () => act.control(id, action) } }, said))) : null,
    mayControl(state, id) ? h("form", { key: "note", class: "bar", on: { submit: (event) => {
      event.preventDefault();
      const field = event.target.elements.note;
      if (field.value.trim()) act.control(id, "note", { value: field.value }, () => { field.value = ""; });
    } } }, h("input", { name: "note", "aria-label": "A note for this run", placeholder: "Note", autocomplete: "off", maxlength: 2000 }), h("button", { type: "submit" }, "Add note")) : null,
  ];
}
