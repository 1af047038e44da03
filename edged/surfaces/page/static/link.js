// The only module that talks: one socket for what happens, and calls of tools by POST, as any MCP
// client's (revision 2026-07-28, which needs no session).

import { withPicture } from "./format.js";

const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const TOPICS = ["instrument", "sweep", "stream", "audit", "value"];
const EVENTS = "/bench/events";
const AGAIN_MS = 1000;
const REFUSED = new Set([403, 409]);

export class CallError extends Error {
  constructor(message, { remedy = "", code = "", away = false } = {}) {
    super(message);
    Object.assign(this, { remedy, code, away });
  }
}

export class Link {
  // hear: {state(isOpen, why), event(topic, name, data), values(list), missed(topics), clock(ahead_ms)}
  constructor(facts, hear) {
    this.facts = facts;
    this.hear = hear;
    this.look = "";
    this.next = 1;
  }

  start() {
    let isHeard = false;
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${EVENTS}`);
    socket.onopen = () => socket.send(JSON.stringify({
      jsonrpc: "2.0", id: 1, method: "subscribe", params: { topics: TOPICS },
    }));
    socket.onmessage = ({ data }) => {
      isHeard = true;
      this.take(JSON.parse(data));
    };
    socket.onclose = async () => {
      this.look = "";
      this.hear.state(false, isHeard ? "" : await this.refused());
      setTimeout(() => this.start(), AGAIN_MS);
    };
  }

  // Why there is no socket, where the engine is there and says why; a socket itself does not tell.
  async refused() {
    try {
      const answer = await fetch(EVENTS, { cache: "no-store", signal: AbortSignal.timeout(5000) });
      return REFUSED.has(answer.status) ? (await answer.json()).error.message : "";
    } catch {
      return "";
    }
  }

  take(message) {
    if (message.id === 1) {
      if (message.error) return;
      // A phone's clock may be wrong; what is old must not look young.
      this.hear.clock(message.result.time_ms - Date.now());
      this.look = message.result.look ?? "";
      this.hear.values(message.result.values ?? []);
      this.hear.state(true);
    } else if (message.method === "event") {
      const { topic, event, data } = message.params;
      if (topic === "value") this.hear.values(data);
      else this.hear.event(topic, event, data);
    } else if (message.method === "missed") this.hear.missed(message.params.topics);
  }

  // The result of a tool; throws CallError. lease: the id of one that the caller holds.
  async call(tool, args = {}, within_ms = 20000, lease = "") {
    const headers = {
      "Content-Type": "application/json", "Accept": "application/json",
      "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool,
    };
    if (this.look) headers["Edged-Look"] = this.look;
    if (lease) headers["Edged-Lease"] = lease;
    const body = {
      jsonrpc: "2.0", id: this.next++, method: "tools/call",
      params: {
        name: tool, arguments: args,
        _meta: {
          [`${META}protocolVersion`]: VERSION,
          [`${META}clientCapabilities`]: {},
          [`${META}clientInfo`]: { name: "bench page", version: this.facts.version },
        },
      },
    };
    const answer = await this.post(this.facts.mcp_path, headers, body, within_ms);
    if (answer.error) throw new CallError(answer.error.message, { code: answer.error.data?.code });
    const data = answer.result.structuredContent ?? {};
    if (answer.result.isError) {
      const error = data.error ?? {};
      throw new CallError(error.message ?? answer.result.content?.[0]?.text ?? "It failed.", error);
    }
    return withPicture(data, answer.result.content);
  }

  // What a GET of the page's own answers.
  async get(path, within_ms = 5000) {
    const answer = await this.ask(path, { cache: "no-store" }, within_ms);
    if (answer.error) throw new CallError(answer.error.message, answer.error);
    return answer;
  }

  // A person's answer, with the page's key.
  async answer(what, told, key) {
    const headers = { "Content-Type": "application/json", "Edged-Page-Key": key };
    const answer = await this.post(`/bench/owner/${what}`, headers, told, 10000);
    if (answer.error) throw new CallError(answer.error.message, answer.error);
    return answer;
  }

  post(path, headers, body, within_ms) {
    return this.ask(path, { method: "POST", headers, body: JSON.stringify(body), cache: "no-store" }, within_ms);
  }

  async ask(path, options, within_ms) {
    let response;
    try {
      response = await fetch(path, { ...options, signal: AbortSignal.timeout(within_ms) });
    } catch {
      throw new CallError("The engine does not answer.", { away: true });
    }
    let answer;
    try {
      answer = await response.json();
    } catch {
      answer = { error: { message: `The engine answered with status ${response.status}.` } };
    }
    // A supervisor answers for an engine that it is starting again.
    if (response.status >= 502) throw new CallError(answer.error?.message ?? "The engine is away.", { away: true });
    return answer;
  }
}
