"""Programs that know VISA, on the guarded bench: the mechanism behind ``@edged`` and HiSLIP.

``desk`` finds the unit that a program names and opens a ``session`` on it; that takes bytes and
gives bytes, and passes each message on the command path as ``SendProgram``. ``question`` is what
became of a program's last question, ``status`` its own error queue and registers, and what of a
message the session answers itself: pure, both. The roads that bytes come by are surfaces above
(``mcp``: methods ``edged/visa.*``; ``hislip``); they hold on to ``VisaDesk`` and ``VisaSession``.
"""
