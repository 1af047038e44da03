"""Where requests come in: ``mcp`` for clients, ``rpc`` for programs of the owner, ``page``.

The three do not know each other; all hand what is asked to ``tools`` and ``commands``. ``events``
below them tells what happens.
"""
