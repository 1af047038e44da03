"""The record of every attempt: rows in a chain of hashes.

``row`` is one of them, ``chain`` how they hold each other, ``queries`` and ``history`` how they are
found, and ``verify`` whether anything was changed, with an engine or without. Outsiders take
``book``.
"""
