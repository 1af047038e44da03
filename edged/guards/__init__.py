"""What keeps a bench from harm beyond what one call can tell: the timers inside its instruments
(``dead_man``).

Pure: times, meetings and what is marked are handed in.
"""
