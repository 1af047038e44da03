// A server of the official TypeScript SDK 1.x with its defaults, on express, with the same two tools
// as the Python peers, typed as its documentation shows: zod schemas for what goes in and comes out.
// There is no VISA for Node, so a query goes over a raw socket to the instrument's port.
// Arguments: ports of instruments. Prints its port, ends with its standard input. NODE_PATH says
// where the SDK is.
const { randomUUID } = require("node:crypto");
const net = require("node:net");
const express = require("express");
const { z } = require("zod");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const {
  StreamableHTTPServerTransport,
} = require("@modelcontextprotocol/sdk/server/streamableHttp.js");

const STATUS = { instruments: 3, state: "ready", uptime_s: 1.5, sweeps: [], streams: [] };
const STATUS_TYPE = {
  instruments: z.number().int(),
  state: z.string(),
  uptime_s: z.number(),
  sweeps: z.array(z.string()),
  streams: z.array(z.string()),
};
const transports = new Map();

// One connection, which asks one question after another, as a careful user writes it.
class Instrument {
  constructor(port) {
    this.port = port;
    this.last = Promise.resolve();
  }

  query(command) {
    this.last = this.last.catch(() => {}).then(() => this.ask(command));
    return this.last;
  }

  async ask(command) {
    this.socket ??= await connected(this.port);
    return new Promise((resolve, reject) => {
      let answer = "";
      this.socket.removeAllListeners("data").removeAllListeners("error");
      this.socket.on("error", reject);
      this.socket.on("data", (piece) => {
        answer += piece;
        if (answer.endsWith("\n")) resolve(answer.trim());
      });
      this.socket.write(`${command}\n`);
    });
  }
}

function connected(port) {
  return new Promise((resolve, reject) => {
    const socket = net.createConnection({ port, host: "127.0.0.1", noDelay: true });
    socket.setEncoding("ascii");
    socket.once("connect", () => resolve(socket)).once("error", reject);
  });
}

const instruments = process.argv.slice(2).map((port) => new Instrument(Number(port)));

function told(value) {
  return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value };
}

function makeServer() {
  const server = new McpServer({ name: "peer", version: "1" });
  server.registerTool(
    "get_status",
    { description: "Say how the bench is.", inputSchema: {}, outputSchema: STATUS_TYPE },
    async () => told(STATUS),
  );
  server.registerTool(
    "query",
    {
      description: "Ask an instrument.",
      inputSchema: { instrument: z.number().int(), command: z.string() },
      outputSchema: { response: z.string() },
    },
    async ({ instrument, command }) =>
      told({ response: await instruments[instrument].query(command) }),
  );
  return server;
}

async function transportOf(request) {
  const known = transports.get(request.headers["mcp-session-id"]);
  if (known) return known;
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => transports.set(id, transport),
  });
  await makeServer().connect(transport);
  return transport;
}

const app = express();
app.use(express.json());
app.all("/mcp", async (request, response) => {
  const transport = await transportOf(request);
  await transport.handleRequest(request, response, request.body);
});
const listener = app.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${listener.address().port}\n`);
});
process.stdin.on("end", () => process.exit(0)).resume();
