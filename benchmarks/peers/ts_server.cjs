// A server of the official TypeScript SDK 1.x with its defaults, on express; one tool that tells
// what it knows. Prints its port, ends with its standard input. NODE_PATH says where the SDK is.
const { randomUUID } = require("node:crypto");
const express = require("express");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const {
  StreamableHTTPServerTransport,
} = require("@modelcontextprotocol/sdk/server/streamableHttp.js");

const STATUS = { instruments: 3, state: "ready", uptime_s: 1.5, sweeps: [], streams: [] };
const transports = new Map();

function makeServer() {
  const server = new McpServer({ name: "peer", version: "1" });
  server.registerTool("get_status", { description: "Say how the bench is." }, async () => ({
    content: [{ type: "text", text: JSON.stringify(STATUS) }],
    structuredContent: STATUS,
  }));
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
