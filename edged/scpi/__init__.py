"""IEEE 488.2 and SCPI: words, lines, numbers, blocks, answers; no profile is known here.

Everything is pure. ``words`` says which two headers mean one, ``line`` takes a message apart,
``numbers`` and ``blocks`` read values, ``answer_text`` cleans what came, ``errors`` knows the error
queue's entries.
"""
