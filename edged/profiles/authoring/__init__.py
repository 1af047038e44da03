"""What helps people to trust profiles: beyond being valid, are they good?

``lint`` says what a valid profile does unwisely, ``verification`` keeps what was tried on a real
unit, ``checking`` says what of a profile was checked, ``markdown`` shows a profile as a page for
people and agents. Nothing here is needed to work an instrument. ``edged_author`` writes profiles.
"""
