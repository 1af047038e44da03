// The host of the chat, spoken to by postMessage (MCP Apps, 2026-01-26). What link.js is to the page.

import { withPicture } from "./format.js";

const VERSION = "2026-01-26";
const WITHIN_MS = 20000;

export class CallError extends Error {
  constructor(message, { remedy = "", code = "", away = false } = {}) {
    super(message);
    Object.assign(this, { remedy, code, away });
  }
}

export class Host {
  // hear: {input(arguments), result(structuredContent), theme(name), end()}
  constructor(hear) {
    this.hear = hear;
    this.next = 1;
    this.waiting = new Map();
    addEventListener("message", (event) => {
      if (event.source === parent && event.data?.jsonrpc === "2.0") this.take(event.data);
    });
  }

  async start(name) {
    const told = await this.ask("ui/initialize", {
      protocolVersion: VERSION, appInfo: { name, version: "1" }, appCapabilities: {},
    });
    this.context(told.hostContext);
    this.tell("ui/notifications/initialized", {});
    new ResizeObserver(() => this.tell("ui/notifications/size-changed", {
      width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
    })).observe(document.body);
  }

  take(message) {
    if (message.method === undefined) {
      this.waiting.get(message.id)?.(message);
      this.waiting.delete(message.id);
      return;
    }
    const params = message.params ?? {};
    switch (message.method) {
      case "ui/notifications/tool-input": this.hear.input(params.arguments ?? {}); break;
      case "ui/notifications/tool-result": this.hear.result(params.structuredContent ?? {}); break;
      case "ui/notifications/host-context-changed": this.context(params); break;
      case "ui/resource-teardown": this.hear.end(); break;
      default:
    }
    if (message.id !== undefined) this.post({ id: message.id, result: {} });
  }

  context(told) {
    if (told?.theme) this.hear.theme(told.theme);
  }

  // The result of a tool; throws CallError.
  async call(tool, args = {}, within_ms = WITHIN_MS) {
    const result = await this.ask("tools/call", { name: tool, arguments: args }, within_ms);
    const data = result.structuredContent ?? {};
    if (result.isError) {
      const error = data.error ?? {};
      throw new CallError(error.message ?? result.content?.[0]?.text ?? "It failed.", error);
    }
    return withPicture(data, result.content);
  }

  ask(method, params, within_ms = WITHIN_MS) {
    const id = this.next++;
    return new Promise((done, failed) => {
      const late = setTimeout(() => {
        this.waiting.delete(id);
        failed(new CallError("The host does not answer.", { away: true }));
      }, within_ms);
      this.waiting.set(id, (answer) => {
        clearTimeout(late);
        if (answer.error) failed(new CallError(answer.error.message, { away: true }));
        else done(answer.result);
      });
      this.post({ id, method, params });
    });
  }

  tell(method, params) {
    this.post({ method, params });
  }

  post(message) {
    parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }
}

export function useTheme(name) {
  document.documentElement.dataset.theme = name;
}
