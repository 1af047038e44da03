"""The RPC interface: JSON-RPC 2.0 on loopback for the CLI and for scripts.

``listener`` is the port, ``server`` the application behind it, ``settings`` what both are made of,
``methods`` and ``own_methods`` what can be called, a row each, ``reference`` their page in the
documentation; ``metrics`` is the page for Prometheus. What happens is told by
``surfaces/events``. Outsiders take ``listener`` (the composition root) and ``client`` (the CLI).
"""
