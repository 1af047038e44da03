// A session of the official TypeScript SDK's client 1.x; see orders.mjs.

import { Changes, Person, handlersOf, load, obey, say } from './orders.mjs';

const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = await load(
    '@modelcontextprotocol/sdk/client/streamableHttp.js',
);
const { ElicitRequestSchema, ToolListChangedNotificationSchema } = await load('@modelcontextprotocol/sdk/types.js');

const url = new URL(process.argv[2]);

async function connection() {
    const changes = new Changes();
    const person = new Person();
    const client = new Client(
        { name: 'conformance', version: '1' },
        { capabilities: { elicitation: { form: {} } } },
    );
    client.setRequestHandler(ElicitRequestSchema, async (request) =>
        person.asked(request.params.message),
    );
    client.onerror = () => {};
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => changes.note());
    const transport = new StreamableHTTPClientTransport(url);
    await client.connect(transport);
    say({ protocol: transport.protocolVersion, server: client.getServerVersion().name });
    const again = await obey(
        handlersOf({
            changes,
            person,
            list: async () => (await client.listTools()).tools.map((tool) => tool.name),
            call: (order, options) =>
                client.callTool({ name: order.name, arguments: order.arguments }, undefined, options),
        }),
    );
    await client.close();
    return again;
}

while (await connection());
process.exit(0);
