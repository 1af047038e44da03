"""MCP and JSON-RPC as values: bytes or objects in, objects out. No socket, no loop, no clock."""
