"""The engine: constructs every part in order, and tears it down in reverse.

Begin with ``life`` (a process from its start to its end), ``core`` and ``engine``; ``long_work``,
``surfaces`` and ``parts`` construct what belongs together, ``status`` tells how it is, and
``housekeeping`` watches the loop and the memory. Nobody imports this chapter but the CLI.
"""
