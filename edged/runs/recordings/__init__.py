"""What runs leave on the disk, whole or with a word of what is missing.

``meta`` is meta.json, ``append`` the one way of writing and the archives of arrays, ``lines`` a
file of rows, ``files`` the files of one recording, ``formats`` npz, ``table`` the rows read back,
``netcdf`` the layout of data.nc and ``data_nc`` the file, ``checks`` verdicts and ``unit_reports``
their exports, ``reader`` what others ask of a recording, ``figures`` its pictures. Outsiders take
``registry``, ``reader`` and ``checks``.
"""
