"""What helps people to write profiles and to trust them: beyond being valid, are they good?

``drafting`` makes a first draft of what an instrument told, ``lint`` says what a valid profile does
unwisely, ``verification`` keeps what was tried on a real unit, ``markdown`` shows a profile as a
page for people and agents. Nothing here is needed to work an instrument.
"""
