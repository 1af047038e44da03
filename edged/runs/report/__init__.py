"""A run told in one file, for those who were not there: what was measured, with what, and by whom.

``facts`` says what stands in it, ``document`` writes that as one page of HTML with the pictures of
``svg``. ``making`` reads a recording and brings all that together. Outsiders take ``reports``.
"""
