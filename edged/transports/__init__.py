"""Bytes to and from one instrument over each kind of wire.

``link`` is the seam: what every transport does, and the errors that it raises. ``address`` reads
VISA resource names; ``message`` is what those with marked message ends share, ``tcp`` what those on
sockets share. Then a module for each transport. A link belongs to the thread that works it.
Outsiders take ``link.Link`` and its errors, ``address``, and ``visa.VisaLibrary``, which opens one.
"""
