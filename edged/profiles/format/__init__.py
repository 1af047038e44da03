"""The grammar of profile files: trees of YAML in, parts of ``profiles.model`` out.

A module for each chapter of docs/profiles.md. ``fields`` is what all of them read with; ``profile``
puts a whole file together; ``schema`` is the same format as a JSON Schema. Outsiders take
``profile.read_profile`` and ``schema.profile_schema``.
"""
