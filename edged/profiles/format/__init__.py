"""The grammar of profile files: trees of YAML in, parts of ``profiles.model`` out.

A module for each chapter of docs/profiles.md, with a table of keys (``edged.schema``) for each
mapping: a row says of a key what may stand there, whether it must, and what it means. The reading,
the JSON Schema (``schema``) and the tables of docs/profiles.md come from them; what holds between
keys is a function beside its table. ``kinds`` is what only profiles have under a key; ``profile``
puts a whole file together. Outsiders take ``profile.read_profile`` and ``schema.profile_schema``.
"""
