"""The transports of the simulated bench, from the instrument's side.

``stream`` is what all share: bytes in, messages out, faults on the way; then a module for each
transport. Written from the standards, not from our own links.
"""
