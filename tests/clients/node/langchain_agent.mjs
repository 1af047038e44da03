// LangChain's tools of an MCP server, as its converter gives them to Gemini; see tests/bench/agent_clients.py.

import { load } from './orders.mjs';

const { MultiServerMCPClient } = await load('@langchain/mcp-adapters');
const { ChatGoogleGenerativeAI } = await load('@langchain/google-genai');

const [url, calls] = [process.argv[2], JSON.parse(process.argv[3])];
const client = new MultiServerMCPClient({ mcpServers: { bench: { transport: 'http', url } } });
const tools = await client.getTools();
const answers = [];
for (const call of calls) {
    const tool = tools.find((one) => one.name === call.name);
    const answer = await tool.invoke(call.arguments).catch((error) => error.message);
    answers.push(typeof answer === 'string' ? answer : JSON.stringify(answer));
}
await client.close();
const model = new ChatGoogleGenerativeAI({ apiKey: 'none', model: 'gemini-2.5-flash' });
const declared = model.invocationParams({ tools }).tools.flatMap((one) => one.functionDeclarations);
console.log(JSON.stringify({ tools: declared, answers }));
