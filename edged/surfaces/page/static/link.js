// The only module that talks: one socket for what happens, and calls of tools by POST, as any MCP
// client's (revision 2026-07-28, which needs no session).

const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const TOPICS = ["instrument", "sweep", "stream", "audit", "value"];
const AGAIN_MS = 1000;

export class CallError extends Error {
  constructor(message, { remedy = "", code = "", away = false } = {}) {
    super(message);
    Object.assign(this, { remedy, code, away });
  }
}

export class Link {
  // hear: {state(isOpen), event(topic, name, data, time_ms), values(list)}
  constructor(facts, hear) {
    this.facts = facts;
    this.hear = hear;
    this.look = "";
    this.lease = "";
    this.next = 1;
  }

  start() {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/bench/events`);
    socket.onopen = () => socket.send(JSON.stringify({
      jsonrpc: "2.0", id: 1, method: "subscribe", params: { topics: TOPICS },
    }));
    socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    socket.onclose = () => {
      this.look = "";
      this.hear.state(false);
      setTimeout(() => this.start(), AGAIN_MS);
    };
  }

  take(message) {
    if (message.id === 1) {
      if (message.error) return;
      this.look = message.result.look ?? "";
      this.hear.values(message.result.values ?? []);
      this.hear.state(true);
    } else if (message.method === "event") {
      const { topic, event, data, time_ms } = message.params;
      if (topic === "value") this.hear.values(data);
      else this.hear.event(topic, event, data, time_ms);
    }
  }

  // The result of a tool; throws CallError.
  async call(tool, args = {}, within_ms = 20000) {
    const headers = {
      "Content-Type": "application/json", "Accept": "application/json",
      "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool,
    };
    if (this.look) headers["Edged-Look"] = this.look;
    if (this.lease) headers["Edged-Lease"] = this.lease;
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
    return data;
  }

  // A person's answer, with the page's key.
  async answer(what, told, key) {
    const headers = { "Content-Type": "application/json", "Edged-Page-Key": key };
    const answer = await this.post(`/bench/owner/${what}`, headers, told, 10000);
    if (answer.error) throw new CallError(answer.error.message, answer.error);
    return answer;
  }

  async post(path, headers, body, within_ms) {
    let response;
    try {
      response = await fetch(path, {
        method: "POST", headers, body: JSON.stringify(body), cache: "no-store",
        signal: AbortSignal.timeout(within_ms),
      });
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
