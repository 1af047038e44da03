"""Where requests come in: ``mcp`` for everybody's clients, ``rpc`` for the owner's own programs.

The two do not know each other; both hand what is asked to ``tools`` and ``commands``.
"""
