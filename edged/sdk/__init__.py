"""SDK wrappers: vendor code, each in a worker process of its own, offered as typed tools.

``registry`` knows all wrappers of this machine; ``executor`` works one, ``process`` is one life of
its worker, ``wire`` the frames between the two; ``worker`` is the program in it, ``wrapper`` what
the author of a wrapper may use; ``specs`` reads what it offers, ``failures`` what went wrong.
Outsiders take ``registry``, ``executor`` and ``specs``.
"""
