"""``edged doctor``: looks at everything, changes nothing, and says what to do.

``checks`` is the list, in the order of the report; ``facts`` is what they look at, gathered once;
the checks stand in ``machine_checks``, ``bench_checks`` and ``port_checks``; ``report`` is a line
of what was found. Outsiders take ``checks.run_checks``.
"""
