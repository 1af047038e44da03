"""Many benches: what the edges of a relay say of themselves, and one endpoint for all of them.

``table`` is who is here, from announcements alone; ``reach`` asks edges, one or all at once, under
the caller's own token; ``tools`` are the five tools of ``/mcp``, ``desk`` runs them; ``pages`` is
``/fleet``; ``door`` lets in. ``inventory`` keeps the table where it outlives all fronts. Outsiders
take ``service``.
"""
