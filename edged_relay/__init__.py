"""The public side of the relay route: a front for many benches, and an issuer for development.

``front`` takes requests from outside and ``exchanges`` gives them to an edge; ``login`` leads
clients to their issuer; ``key_store`` is a bucket at the broker. ``fleet`` is many benches as one.
``program`` is all of it; edged finds it, and ``dev_issuer``, by entry points.
"""
