"""MCP and JSON-RPC as values: bytes or objects in, objects out. No socket, no loop, no clock.

A request goes through them in this order: ``http_rules`` judges its head, ``jsonrpc`` reads its
body, ``recognition`` says which of the ``revisions`` it speaks, ``session`` what that state allows,
``messages`` reads a method's parameters, ``results`` encodes its result, ``exchange`` says what
goes out when, and ``sse`` frames it. The revisions are data. Outsiders are the surfaces.
"""
