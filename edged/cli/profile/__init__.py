"""``edged profile VERB``: write instrument profiles, and try them; each verb is one module."""
