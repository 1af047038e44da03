"""One vocabulary of keys: what may stand in a file of ours, described once.

From one description (``tables``: Key, Kind, Table) come the reader that complains with file, line
and column (``fields`` looks at the nodes), the JSON Schema (``json_schema``) and the rows of the
documentation (``docs/reference.py``). It knows no key: profiles, the bench file and what else is
written by people have tables of their own.
"""
