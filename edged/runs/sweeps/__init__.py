"""Ramps of a set-point, never faster and never in larger steps than was allowed.

``request`` is what was asked for, ``beginning`` makes a sweep of it, ``sweep`` is the state of one,
``ramp`` its steps and readings, ``ramp_plan`` the pure arithmetic of them, ``conflicts`` who holds
what. Outsiders take ``registry``, which has the life of each.
"""
