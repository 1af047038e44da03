"""The tools and resources that a caller sees now.

``registry`` is the present set: the static ones, and those that ``dynamic`` makes of profiles and
wrappers; ``dispatcher`` takes a call by name and gives its action to the command path.
``resources`` reads by URI, ``resource_kinds`` says what there is. Outsiders are the surfaces, which
take ``dispatcher``, ``registry`` and ``resources``.
"""
