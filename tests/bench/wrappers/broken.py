"""A wrapper that raises at import."""

raise RuntimeError("the licence has expired")
