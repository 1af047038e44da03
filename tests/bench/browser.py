"""Debian's chromium, driven by its own driver over W3C WebDriver; no library between.

``running_browser`` gives one that has nothing of another, and ends it. It looks nothing up and
connects to nothing but what it is told to.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.waiting import HANGS_S

READY_WITHIN_S = 60.0
ANSWERED_WITHIN_S = 60.0
SEEN_WITHIN_S = HANGS_S
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
ESCAPE = "\ue00c"
TAB = "\ue004"
ENTER = "\ue007"
HOME = "\ue011"


@dataclass(slots=True)
class Browser:
    """One session. Every call is bounded; an error of the driver fails the test."""

    port: int
    session: str = ""
    logged: list[dict[str, Any]] = field(default_factory=list)

    def command(self, verb: str, path: str, body: Any = None) -> Any:
        """One WebDriver command of this session; gives its value."""
        return self._ask(verb, f"/session/{self.session}{path}", body)

    def _ask(self, verb: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWERED_WITHIN_S)
        try:
            sent = json.dumps(body if body is not None else {}) if verb == "POST" else None
            connection.request(verb, path, sent, {"Content-Type": "application/json"})
            told = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        assert not (isinstance(told, dict) and "error" in told), told
        return told

    def begin(self, width: int, height: int, *, flags: Sequence[str], profile: str) -> None:
        options = {
            "args": [
                *QUIET,
                f"--window-size={width},{height}",
                f"--user-data-dir={profile}",
                *flags,
            ]
        }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        told = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = told["sessionId"]
        self.size(width, height)

    def size(self, width: int, height: int) -> None:
        """What the page has to itself, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def devtools(self, method: str, **params: Any) -> Any:
        """One command of the browser's own protocol."""
        return self.command("POST", "/goog/cdp/execute", {"cmd": method, "params": params})

    def open(self, url: str) -> None:
        self.command("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns in the page."""
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script: str, *arguments: Any) -> Any:
        """The same, where the last argument of the body is told the result."""
        return self.command("POST", "/execute/async", {"script": script, "args": list(arguments)})

    @property
    def text(self) -> str:
        """All that can be read."""
        return str(self.run("return document.body.innerText"))

    def wait(self, holds: Callable[[], Any], within_s: float = SEEN_WITHIN_S) -> Any:
        """What it gives, once that is true of anything."""
        until = time.monotonic() + within_s
        while True:
            found = holds()
            if found:
                return found
            assert time.monotonic() < until, f"not seen within {within_s:g} s:\n{self.text}"
            time.sleep(0.05)  # noqa: TID251 - a browser has no event to wait for here

    def sees(self, words: str, within_s: float = SEEN_WITHIN_S) -> None:
        """Wait until the page says so."""
        self.wait(lambda: words in self.text, within_s)

    def element(self, selector: str) -> str:
        told = self.command("POST", "/element", {"using": "css selector", "value": selector})
        return str(told[ELEMENT])

    def click(self, selector: str) -> None:
        self.command("POST", f"/element/{self.element(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.command("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        told = {"actions": [{"type": "key", "id": "keys", "actions": actions}]}
        self.command("POST", "/actions", told)

    def picture(self, path: Path) -> None:
        """A picture of what is in the window."""
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """What the console has said of errors: scripts, refused loads, the policy."""
        logged = self.command("POST", "/se/log", {"type": "browser"})
        return [one["message"] for one in logged if one["level"] in {"SEVERE", "WARNING"}]

    def requests(self) -> list[str]:
        """The addresses that the page has asked for since this was asked last."""
        found = []
        for entry in self.command("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
            elif message["method"] == "Network.webSocketCreated":
                found.append(message["params"]["url"])
        return found

    def end(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.command("DELETE", "")


@contextlib.contextmanager
def running_driver(*before: str) -> Iterator[int]:
    """A driver on a free port of loopback; ``before`` comes before its command line."""
    driver = shutil.which("chromedriver")
    assert driver is not None, "chromedriver is not installed: apt-get install chromium-driver"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*before, driver, f"--port={port}", "--silent"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < until, "chromedriver did not start"
            time.sleep(0.05)  # noqa: TID251 - a process has no event to wait for
        yield port
    finally:
        process.terminate()
        process.wait(READY_WITHIN_S)


@contextlib.contextmanager
def running_browser(
    width: int = 1440, height: int = 900, *, flags: Sequence[str] = ()
) -> Iterator[Browser]:
    """A browser with an empty profile."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        running_driver() as port,
    ):
        browser = Browser(port)
        browser.begin(width, height, flags=flags, profile=profile)
        try:
            yield browser
        finally:
            browser.end()
