"""What a person types: ``edged VERB …``. ``main.VERBS`` is the list, and names each verb's code.

Verbs talk to a running engine over RPC and load nothing of it. ``shared`` has what they share:
options, quantities, how results are shown. ``profile`` is a verb with verbs of its own; those that
read profiles are in ``profile_files``. Nobody imports this chapter.
"""
