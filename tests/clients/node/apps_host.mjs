// A host of MCP Apps for tests: the official bridge and client around a sandboxed frame.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

const MIME = "text/html;profile=mcp-app";
// What the specification has a host enforce where the resource names no domains.
const CSP =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'none'";
const said = { calls: [], sizes: 0 };
let bridge;

window.said = said;
window.setTheme = (theme) => bridge.setHostContext({ theme });
window.leave = () => bridge.teardownResource({});
window.show = async (tool, args, theme) => {
  const client = new Client(
    { name: "apps-host", version: "1" },
    { capabilities: { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [MIME] } } } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href)));
  const { tools } = await client.listTools();
  const uri = tools.find((one) => one.name === tool)._meta.ui.resourceUri;
  const { contents } = await client.readResource({ uri });
  if (contents[0].mimeType !== MIME) throw new Error(`${uri} is ${contents[0].mimeType}`);
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.style = "width: 100%; height: 700px; border: 0";
  document.body.replaceChildren(frame);
  bridge = new AppBridge(null, { name: "apps-host", version: "1" }, { serverTools: {} }, { hostContext: { theme } });
  bridge.oncalltool = async (params) => {
    said.calls.push(params.name);
    return await client.callTool(params);
  };
  bridge.onsizechange = () => { said.sizes += 1; };
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: args });
    await bridge.sendToolResult(await client.callTool({ name: tool, arguments: args }));
  };
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = contents[0].text.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${CSP}">`);
  return uri;
};
document.title = "ready";
