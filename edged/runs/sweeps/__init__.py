"""Ramps of a set-point, never faster and never in larger steps than was allowed.

``request`` is what was asked for, ``ramp_plan`` the pure arithmetic of it, ``sweep`` one sweep's
state, ``ramp`` the walk, ``life`` its beginning and end, ``conflicts`` who holds what. Outsiders
take ``book``.
"""
