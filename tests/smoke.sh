#!/bin/bash
# initialize, tools/list and one call by curl, against the engine at $MCP_URL; else the one that
# `make run` has started, wherever it listens.
set -euo pipefail
url=${MCP_URL:-}
if [ -z "$url" ] && [ -r var/engine.json ]; then
    told() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" var/engine.json; }
    url=http://127.0.0.1:$(told mcp_port)$(told mcp_path)
fi
url=${url:-http://127.0.0.1:8767/mcp}
echo "$url"

post() {
    echo "> $1"
    curl -sS --fail-with-body --max-time 10 "$url" \
        -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' \
        -d "$1" | cut -c 1-600
    echo
}

post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"curl","version":"8"}}}'
post '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
post '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_instruments","arguments":{}}}'
