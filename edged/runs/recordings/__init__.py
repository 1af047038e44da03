"""What runs leave on the disk, whole or with a word of what is missing.

``meta`` is meta.json, ``append`` the one way of writing, ``files`` the files of one recording,
``formats`` npz and Parquet, ``reader`` what others ask of it, ``figures`` its pictures. Outsiders
take ``book`` and ``reader``.
"""
