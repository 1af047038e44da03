"""The relay route over NATS: its messages, and the edge's end of it.

``envelope`` is an HTTP request as a message, ``carrier`` gives it to the engine, ``announcement``
is what an edge says of itself. ``link`` is the connection to the broker and alone knows nats.
The public front is ``edged_relay``.
"""
