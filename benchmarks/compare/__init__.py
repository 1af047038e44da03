"""``make bench``: this server beside what a user would pick instead, in one interleaved run."""
