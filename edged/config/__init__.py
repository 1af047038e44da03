"""What the owner says in files, the environment and flags, as one checked Configuration.

``keys`` is the one table: the parser, ``edged config`` and docs/configuration.md are made of it.
Read ``kinds`` (what a value may be), ``keys``, ``instruments`` (the entries of INSTRUMENTS), then
``load``, which puts the sources together and is what outsiders take.
"""
