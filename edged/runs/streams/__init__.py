"""One command measured on a grid of times, and the waveforms that captures leave.

``stream`` is one stream with its statistics; ``waveforms`` keeps traces within a memory budget.
Outsiders take ``registry`` and ``waveforms``.
"""
