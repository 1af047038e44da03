"""Instruments: one actor thread a line, and the pool of those the bench has.

From the outside in: ``pool`` knows the units and the lines that lead to them; ``instrument`` is
one, and its ``converse`` the only way to it; ``actor`` is its line's thread, which takes jobs from
the ``mailbox``; ``line`` serves a job on one link and brings the link back; ``dialogue`` speaks on
it. A job is a ``conversation``: what is said, by a generator that knows no wire. ``in_step`` says
whether an answer can be another question's, ``identify`` asks who is there. Pure are
``conversation``, ``in_step``, ``line_state``, ``registration`` and ``identity``. Outsiders take
``pool.InstrumentPool`` and ``instrument.Instrument``; conversations are for ``commands`` and
``discovery``.
"""
