"""The tools that callers see: fourteen fixed ones, the rest made from profiles and wrappers."""
