"""What holds when nobody looks: decisions about readings, times and counts. Pure.

No sockets, no threads, no clocks: what asks instruments is in ``commands`` and ``instruments``.
"""
