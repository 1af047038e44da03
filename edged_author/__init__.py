"""Writing profiles: drafts from instruments and from others' drivers, and trying them on units.

``probing`` finds how an instrument has to be spoken to, ``meeting`` asks what it can, ``drafting``
makes a first draft of that; ``wire_talk`` holds such a talk over a wire, ``one_off_engine`` works
one instrument for a trial. ``importing`` drafts profiles from drivers of others. ``cli`` has the
verbs, which edged finds by entry points. Nothing here is needed to work an instrument.
"""
