"""The HiSLIP server: programs that know VISA, on the guarded bench.

``exchange`` is the standard's rules, pure, and ``unit_locks`` those of its locks; ``names`` finds
the unit of a sub-address; ``program`` is one client's session, ``connection`` its two sockets, and
``server`` the port. Outsiders use ``server`` alone.
"""
