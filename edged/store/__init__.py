"""What is kept: the record of every attempt, the journal, lockouts, counters.

``database`` is what the rest of edged sees: awaited writes and reads. One thread writes
(``writer``), the file is ``file``'s, ``health`` says how it is. Above them stand ``audit`` (the
record), ``journal`` and ``lockouts`` (what must outlive a kill, twice: ``safety_copy``),
``experience``, ``told_on`` and ``bench_copy``. Outsiders take those; nothing else opens the
database.
"""
