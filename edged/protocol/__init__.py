"""MCP, JSON-RPC and HiSLIP as values: bytes or objects in, objects out. No socket, loop or clock.

A request goes through them in this order: ``http_rules`` judges its head, ``jsonrpc`` reads its
body, ``recognition`` says which of the ``revisions`` it speaks, ``session`` what that state allows,
``messages`` reads a method's parameters, ``results`` encodes its result, ``exchange`` says what
goes out when, and ``sse`` frames it. The revisions are data. Outsiders are the surfaces;
of ``hislip``, the messages of IVI-6.1, transports and simulator, too.
"""
