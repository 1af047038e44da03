"""YAML files that people write and nobody has checked, read into trees that know their places.

``file`` reads a file within bounds, ``source`` makes a tree of its text and refuses what YAML can
hide, ``tree`` is that tree: each node knows its line and column, for complaints.
"""
