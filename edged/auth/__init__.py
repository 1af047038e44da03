"""Keys, tokens, and what they allow.

Read ``permissions`` first: one rule for tokens and for the owner's bound on the direct route.
``claims`` says what a token must look like, ``signature`` checks its signature and alone knows
python-jose, ``keys`` fetches the issuer's keys. Outsiders take ``verifier``, which puts them
together, and ``permissions``.
"""
