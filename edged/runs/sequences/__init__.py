"""A profile's sequences and tables: several steps as one call.

``steps`` does one step after the other, ``run`` is one run of a sequence. Outsiders take
``registry``.
"""
