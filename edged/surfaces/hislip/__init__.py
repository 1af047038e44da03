"""The HiSLIP server: programs that know VISA, on the guarded bench.

``exchange`` and ``locks`` are the standard's rules, pure; ``names`` finds the unit of a
sub-address; ``program`` is one client's session, ``connection`` its two sockets, and ``server`` the
port. Outsiders use ``server`` alone.
"""
