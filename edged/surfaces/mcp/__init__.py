"""The MCP surface: one HTTP endpoint for every revision of MCP served here.

Read ``endpoint`` first, which takes a request from its head to its answer; then ``calling`` and
``methods`` (what each JSON-RPC method does), ``post`` (a call that becomes an event stream),
``sessions`` (what outlives a request), ``news`` (what it says unasked). ``request`` and ``reply``
are the two ends of an exchange; the bytes are ``edged.http``. ``seams`` says what the surface needs
of the rest; ``error_codes`` where an error goes. Outsiders construct ``surface.McpSurface``.
"""
