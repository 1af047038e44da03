"""The HTTP server of every port that is served here.

Read ``connection`` first: one connection, framed once by aiohttp's public parser, its requests
served one by one by a ``RequestHandler``. ``server`` makes the connections and looks after them;
``accepting`` has the sockets; ``application`` hands requests to an aiohttp application on the same
connection. ``pulse`` tells when the engine was heard last.
"""
