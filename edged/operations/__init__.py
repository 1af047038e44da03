"""What can be asked of the daemon, a module for each family; a static tool is one row here.

A row (``commands.operation.Operation``) says all of one thing: the action that asks for it, at what
it is aimed, how it is run, what shape its failure has, and its static tool with schema, hints and
words. Read ``bench`` first, whose rows are the simplest, then ``commands``, ``sweeps``,
``streams``, ``runs``, ``resources`` and ``wrappers``; ``table`` has them all. Each module begins
with its actions and what makes them of raw arguments, goes on with a class that holds what its
operations are run with, and ends with the rows. Outsiders use ``table``, the classes (the
composition root), and the actions.
"""
