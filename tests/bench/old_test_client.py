"""A plugin for pytest's ``-p``: the type of aiohttp 3.8's test client can be given parameters.

pytest-aiohttp 1.1 writes ``TestClient[Request, Application]`` in annotations that Python evaluates,
and the releases before it need a pytest-asyncio that is too old. Debian bookworm has aiohttp 3.8;
remove this together with its release in packaging/deb_test.
"""

from types import GenericAlias

from aiohttp.test_utils import TestClient

if not hasattr(TestClient, "__class_getitem__"):
    TestClient.__class_getitem__ = classmethod(GenericAlias)
