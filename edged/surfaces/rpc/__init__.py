"""The RPC interface: JSON-RPC 2.0 on loopback for the CLI and for scripts.

``server`` is the port, ``methods`` and ``own_methods`` what can be called, ``reference`` what each
takes and gives; ``metrics`` is the page for Prometheus. What happens is told by
``surfaces/events``. Outsiders take ``server`` (the composition root) and ``client`` (the CLI).
"""
