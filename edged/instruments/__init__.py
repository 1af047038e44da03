"""Instruments: one actor thread a line, and the pool of those the bench has."""
