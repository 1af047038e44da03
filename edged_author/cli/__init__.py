"""Verbs for authors: ``edged probe`` and ``edged profile new | import | test``."""
