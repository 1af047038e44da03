"""What the login scripts share: a person at the issuer's page, and what they say in the end.

Runs in the client's own virtual environment, so it uses the standard library alone.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

REDIRECT = "http://127.0.0.1:8799/callback"
FIELD = re.compile(r'name="([^"]*)" value="([^"]*)"')


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Store:
    """Keeps tokens and what a client was registered as, in memory."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None
        self.seen = 0

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens, self.seen = tokens, self.seen + 1

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


class PersonAtThePage:
    """Opens the issuer's page, presses its button, and is sent back with a code."""

    def __init__(self) -> None:
        self.came_back: dict[str, str] = {}

    async def open(self, url: str) -> None:
        await asyncio.to_thread(self._press, url)

    def _press(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=10) as page:
            fields = FIELD.findall(page.read().decode())
        form = {html.unescape(name): html.unescape(value) for name, value in fields}
        action = urllib.parse.urljoin(url, "/authorize")
        request = urllib.request.Request(action, urllib.parse.urlencode(form).encode())
        try:
            urllib.request.build_opener(_Stay).open(request, timeout=10)
        except urllib.error.HTTPError as sent:
            place = urllib.parse.urlsplit(sent.headers["Location"])
            assert place.netloc == urllib.parse.urlsplit(REDIRECT).netloc
            self.came_back = dict(urllib.parse.parse_qsl(place.query))


def say(value: Any) -> None:
    json.dump(value, sys.stdout)
