// STOP ALL: no question; tried for a minute while the engine is away, then asked again.

import { fill, h } from "./dom.js";
import { byName } from "./format.js";

const TRY_FOR_MS = 60000;
const AGAIN_MS = 1000;
const TWICE_WITHIN_MS = 1000;
const SAYS = {
  confirmed: "confirmed off", taken: "took the stop; nobody can ask it whether it is off", trying: "not confirmed",
  failed: "NOT stopped", nothing_to_send: "has no stop", absent: "not here", not_connected: "not connected",
};

export class Stop {
  // call: (tool, args, within_ms) -> result; name: (instrument_id) -> what people call it
  constructor(button, place, call, name) {
    Object.assign(this, { button, place, call, name, busy: false, escaped: -Infinity });
    button.addEventListener("click", () => this.press());
  }

  watchKeys(target) {
    target.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.repeat) return;
      const now = performance.now();
      if (now - this.escaped < TWICE_WITHIN_MS) {
        this.escaped = -Infinity;
        this.press();
      } else this.escaped = now;
    });
  }

  async press() {
    if (this.busy) return;
    this.busy = true;
    this.button.dataset.busy = "";
    const began = performance.now();
    try {
      for (let turn = 1; ; turn++) {
        this.say("Stopping everything …", turn > 1 && `The engine is away. Try ${turn}; ${Math.ceil((began + TRY_FOR_MS - performance.now()) / 1000)} s more.`);
        try {
          this.show(await this.call("bench__stop_all", {}, 5000));
          return;
        } catch (error) {
          if (!error.away) {
            this.say("NOT stopped", error.message, error.remedy);
            return;
          }
          if (performance.now() - began > TRY_FOR_MS) {
            this.say("NOT stopped", "The engine did not answer for a minute. Nothing is confirmed: switch off at the instruments.", "Try again?");
            return;
          }
          await new Promise((done) => setTimeout(done, AGAIN_MS));
        }
      }
    } finally {
      this.busy = false;
      delete this.button.dataset.busy;
    }
  }

  // Something that is no report: an attempt, or why there is no more of them.
  say(title, ...lines) {
    const isOver = title.startsWith("NOT");
    this.fill(isOver ? "bad" : "busy", title, lines.filter(Boolean).map((line) => h("p", null, line)),
      isOver ? h("p", { class: "bar" }, h("button", { type: "button", class: "no", on: { click: () => this.press() } }, "Stop all again")) : null);
  }

  // What was done, what nobody has confirmed before all else.
  show(told) {
    const units = [...told.instruments, ...told.wrappers];
    units.sort((a, b) => rank(a) - rank(b) || byName(this.name(a.instrument_id), this.name(b.instrument_id)));
    this.fill(told.is_confirmed ? "good" : "bad", told.is_confirmed ? "Stopped: all that was on is confirmed off" : "Stopped, but NOT all is confirmed off",
      h("ul", null, units.map((unit) => h("li", { class: isDoubtful(unit) ? "bad" : "", key: unit.instrument_id },
        h("b", null, this.name(unit.instrument_id)), ": ", SAYS[unit.state] ?? unit.state,
        unit.unconfirmed.length ? `${unit.state === "trying" ? "" : ", not confirmed"}: ${unit.unconfirmed.join(", ")}` : "",
        unit.error ? `. ${unit.error}` : ""))),
      h("p", { class: "faint" }, `${told.took_ms} ms; sweeps, streams and sequences ${told.is_work_ended ? "have ended" : "are still ending"}`));
  }

  fill(tone, title, ...parts) {
    this.place.hidden = false;
    this.place.className = tone;
    fill(this.place, [h("header", { key: title }, h("h2", null, title),
      h("button", { type: "button", class: "quiet", on: { click: () => { this.place.hidden = true; } } }, "Close")), ...parts]);
  }
}

// What may be on, what has not answered, what is confirmed, and what cannot be.
function rank(unit) {
  if (unit.unconfirmed.length > 0) return 0;
  return isDoubtful(unit) ? 1 : unit.state === "confirmed" ? 2 : 3;
}

function isDoubtful(unit) {
  return unit.unconfirmed.length > 0 || ["failed", "trying", "absent"].includes(unit.state);
}
