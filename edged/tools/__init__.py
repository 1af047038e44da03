"""The tools and resources that a caller sees now.

``registry`` is the present set: the static ones, and those that ``dynamic`` makes of profiles and
wrappers; ``dispatcher`` takes a call by name and gives its action to the command path.
``resources`` says what there is, and reads by URI. Outsiders are the surfaces, which
take ``dispatcher``, ``registry`` and ``resources``.
"""
