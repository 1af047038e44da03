// The official TypeScript SDK's client (1.x or 2.x) finds the issuer by itself, logs in, asks a tool.

import { load, say } from './orders.mjs';

const [address, tool, generation] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await packages(generation);
const url = new URL(address);
const REDIRECT = 'http://127.0.0.1:8799/callback';
const kept = {};
let cameBack;

async function packages(which) {
    if (which === '2') return load('@modelcontextprotocol/client');
    return {
        ...(await load('@modelcontextprotocol/sdk/client/index.js')),
        ...(await load('@modelcontextprotocol/sdk/client/streamableHttp.js')),
        ...(await load('@modelcontextprotocol/sdk/client/auth.js')),
    };
}

const provider = {
    get redirectUrl() {
        return REDIRECT;
    },
    get clientMetadata() {
        return {
            client_name: 'conformance',
            redirect_uris: [REDIRECT],
            grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'],
            token_endpoint_auth_method: 'none',
        };
    },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => {
        kept.client = client;
    },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => {
        kept.tokens = tokens;
    },
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => {
        kept.verifier = verifier;
    },
    redirectToAuthorization: async (place) => {
        // A person opens the issuer's page, presses its button, and is sent back with a code.
        const page = await (await fetch(place)).text();
        const form = new URLSearchParams();
        const plain = (text) => text.replaceAll('&quot;', '"').replaceAll('&#x27;', "'").replaceAll('&amp;', '&');
        for (const [, name, value] of page.matchAll(/name="([^"]*)" value="([^"]*)"/g)) {
            form.set(plain(name), plain(value));
        }
        const sent = await fetch(new URL('/authorize', place), {
            method: 'POST',
            body: form,
            redirect: 'manual',
        });
        cameBack = new URL(sent.headers.get('location')).searchParams;
    },
};

async function connected() {
    const client = new Client({ name: 'conformance', version: '1' }, { capabilities: {} });
    const transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
    try {
        await client.connect(transport);
    } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        await transport.finishAuth(generation === '2' ? cameBack : cameBack.get('code'));
        return connected();
    }
    return client;
}

const client = await connected();
const first = await client.callTool({ name: tool, arguments: {} });
// Its token has run out, so that it is refused: the client renews it without a person.
kept.tokens = { ...kept.tokens, access_token: 'run.out.now' };
await client.callTool({ name: tool, arguments: {} });
say({
    result: JSON.parse(first.content[0].text),
    is_renewed: kept.tokens.access_token !== 'run.out.now',
});
await client.close();
