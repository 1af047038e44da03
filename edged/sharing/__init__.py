"""A bench that several share: who has a unit for a while (``leases``).

Pure: time, ids and what is on disk are handed in.
"""
