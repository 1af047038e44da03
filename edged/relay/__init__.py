"""The relay route: a public front and the edge's end of it, over NATS.

``envelope`` is an HTTP request as a message, ``front`` takes requests from outside, ``carrier``
gives them to the engine; ``exchanges`` are the front's end of them, ``announcement`` what an edge
says of itself. ``link`` is the connection to the broker and
alone knows nats, with ``key_store``, a bucket there; ``credentials`` what
opens it. Outsiders take ``front``, ``exchanges`` and ``carrier`` (the edge's end).
"""
