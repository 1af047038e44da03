"""The tools that callers see: the fixed ones, and those made from profiles and wrappers."""
