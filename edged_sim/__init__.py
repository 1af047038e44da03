"""A simulated bench: instruments on loopback sockets that behave as the real ones do.

Written from facts about real instruments and never from our own profiles: a simulator that shares
the driver's mistakes proves nothing. ``bench`` listens, ``control`` takes orders from tests, the
rest is pure. One more instrument is one more file in ``models``, on what its kind shares
(``models/families``).
"""
