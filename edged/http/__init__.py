"""What aiohttp lacks for every port that is served here.

``connection`` is aiohttp's own protocol with bounds and a word when the client is gone; ``pulse``
tells when the engine was heard last. Both are used by every port.
"""
