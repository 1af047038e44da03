"""Benchmarks: apart from the tests, each a program. Run one with ``python -m benchmarks.NAME``."""
