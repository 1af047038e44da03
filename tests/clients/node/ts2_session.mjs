// A session of the official TypeScript SDK's client 2.x, stateless or legacy; see orders.mjs.

import { Changes, Person, handlersOf, load, obey, say } from './orders.mjs';

const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');

const url = new URL(process.argv[2]);
const mode = process.argv[3];

async function connection() {
    const changes = new Changes();
    const person = new Person();
    const client = new Client(
        { name: 'conformance', version: '1' },
        {
            capabilities: { elicitation: { form: {} } },
            versionNegotiation: { mode },
            listChanged: {
                tools: { autoRefresh: false, debounceMs: 0, onChanged: () => changes.note() },
            },
        },
    );
    client.onerror = () => {};
    client.setRequestHandler('elicitation/create', async (request) =>
        person.asked(request.params.message),
    );
    await client.connect(new StreamableHTTPClientTransport(url));
    say({
        protocol: client.getNegotiatedProtocolVersion(),
        server: client.getServerVersion().name,
    });
    const again = await obey(
        handlersOf({
            changes,
            person,
            list: async () =>
                (await client.listTools({}, { cacheMode: 'refresh' })).tools.map((tool) => tool.name),
            call: (order, options) =>
                client.callTool({ name: order.name, arguments: order.arguments }, options),
        }),
    );
    await client.close();
    return again;
}

while (await connection());
process.exit(0);
