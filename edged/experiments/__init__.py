"""Experiments: one file over several instruments, as data. Pure."""
