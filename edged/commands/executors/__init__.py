"""What each action does once it has been judged: a table of executors for each family.

``core`` puts the tables together; the others are about sweeps, streams and resources, and SDK
wrappers.
"""
