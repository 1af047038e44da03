"""Runs of experiments: their steps, done; see ``edged.experiments`` for what they say."""
