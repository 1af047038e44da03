"""What a person types: ``edged VERB …``. ``main.VERBS`` is the list; each verb is one module.

Verbs talk to a running engine over RPC and load nothing of it. ``shared`` has what they share:
options, quantities, how results are shown. ``profile`` is a verb with verbs of its own. Nobody
imports this chapter.
"""
