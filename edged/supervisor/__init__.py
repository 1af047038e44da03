"""A second process that keeps an engine running and carries its port to the private network.

``supervisor`` is the program, ``engine_child`` the engine as its child, ``watchdog`` judges it,
``proxy`` carries bytes, ``proxied`` says what of them may pass, ``relay_end`` is the bench's end of
the relay. It loads no instrument code.
"""
