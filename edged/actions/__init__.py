"""What can be asked, by whom, and what came of it, as values. Pure.

``action`` is a request as it was made; ``caller`` says whose it is, ``outcome`` what became of it,
``tool`` what a tool is called and takes. Everybody may use all of it; only ``commands.path``
performs an action.
"""
