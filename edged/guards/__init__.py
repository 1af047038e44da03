"""What keeps a bench from harm, beyond one call: timers inside instruments (``dead_man``).

Pure: times, meetings and what is marked are handed in.
"""
