"""The one command path: authorize, resolve, judge, validate, record, run, record.

Read ``path`` first: it performs an action and is the only way to an instrument. ``operation`` is
the row that says what an action means; ``resolve`` finds what its names mean and makes the
``target``; ``policy`` judges what may be sent, ``preconditions`` what stands in the way just now,
``send_guard`` calls back what was judged and has not been sent. ``run`` and ``capture`` hold the
conversation with the instrument, ``pending`` a question without a task. ``record`` and
``audit_record`` write down what was tried. Outsiders use ``CommandPath``; the rows stand in
``edged.operations``.
"""
