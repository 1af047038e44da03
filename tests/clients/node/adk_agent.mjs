// The tools that Google's ADK has of an MCP server, as it declares them to Gemini; see tests/bench/agent_clients.py.

import { load } from './orders.mjs';

const { MCPToolset } = await load('@google/adk');

const [url, calls] = [process.argv[2], JSON.parse(process.argv[3])];
const toolset = new MCPToolset({ type: 'StreamableHTTPConnectionParams', url });
const tools = await toolset.getTools();
const answers = [];
for (const call of calls) {
    const tool = tools.find((one) => one.name === call.name);
    answers.push(JSON.stringify(await tool.runAsync({ args: call.arguments, toolContext: {} })));
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool._getDeclaration()), answers }));
// It keeps its connection.
process.exit(0);
