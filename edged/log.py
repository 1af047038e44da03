"""Logging: structlog set up once, for people on a terminal and as JSON lines for everything else.

Event names are stable snake_case facts, everything else is a field. Nothing secret gets out: fields
that are called like one lose their value, and tokens inside of texts are cut out, also in what
other libraries log through ``logging``. Lines go to stderr; stdout belongs to a program's results.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from edged.lean_imports import without

with without("rich"):
    # It would load all of rich, a tenth of a second, for tracebacks in colour that no log shows.
    import structlog

REMOVED: Final = "[removed]"
SECRET_NAMES: Final = re.compile(
    r"(authorization|token|jwt|secret|password|passwd|credentials|cookie|api_?key|private_?key)\Z",
    re.IGNORECASE,
)
# Names that end like a secret's and are none.
HARMLESS_NAMES: Final = frozenset({"progress_token", "progresstoken"})
SECRET_TEXTS: Final = re.compile(
    # Who has the id of a lease has its units.
    r"lease-[A-Za-z0-9_-]{22}|"
    r"(?P<scheme>\bBearer\s+)[A-Za-z0-9._~+/=-]+"
    r"|\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,4}",
    re.IGNORECASE,
)
# A line end inside of a value could pass for a line of the log.
CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
MAX_DEPTH: Final = 6
PLAIN: Final = (bool, int, float, type(None))
KEPT_LINES: Final = frozenset({"exception", "stack"})


@contextlib.contextmanager
def surviving(log: Any, event: str, **fields: object) -> Iterator[None]:
    """Whatever a bug raises in here is logged, and what comes after it goes on.

    For the top of a loop and for listeners, of which one must not take the others along.

    Args:
        log: a structlog logger.
    """
    try:
        yield
    except Exception:
        log.exception(event, **fields)


def scrub(value: Any, *, depth: int = 0) -> Any:
    """``value`` without secrets and control characters; of bytes only how many there are."""
    match value:
        case str():
            return _scrub_line(value)
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case None | bool() | int() | float():
            return value
        case _ if depth >= MAX_DEPTH:
            return "…"
        case Mapping():
            return {str(name): _scrub_field(str(name), item, depth) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [scrub(item, depth=depth + 1) for item in value]
        case _:
            return _scrub_line(str(value))


def set_up_logging(level: str, log_format: str, *, stream: TextIO | None = None) -> None:
    """Send all logging, ours and that of libraries, to one stream in one form.

    Args:
        level: LOG_LEVEL; libraries only speak from warning up.
        log_format: LOG_FORMAT.
        stream: where lines go instead of stderr.
    """
    out = stream or sys.stderr
    is_console = log_format == "console" or (log_format == "auto" and out.isatty())
    complete = functools.partial(_complete, is_utc=not is_console)
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=out.isatty()) if is_console else _render_json
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.processors.StackInfoRenderer(), complete],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    severity = logging.getLevelName(level.upper())
    logging.getLogger("edged").setLevel(severity)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[complete, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=functools.partial(_Lines, handler),
        cache_logger_on_first_use=False,
    )
    atexit.unregister(ASIDE.write)
    atexit.register(ASIDE.write)


class _Lines:
    """Writes finished lines of ours, in turns with those of libraries.

    They do not pass through ``logging``, which makes two records of each and looks for its caller.
    """

    def __init__(self, handler: logging.StreamHandler[TextIO], *names: Any) -> None:
        self.name = str(names[0]) if names else "edged"
        self._handler = handler

    def write(self, line: str) -> None:
        """Never raises: nothing stops because its log is gone or full."""
        if ASIDE.waiting:
            ASIDE.write()
        stream = self._handler.stream
        with self._handler.lock or contextlib.nullcontext():
            try:
                stream.write(line + "\n")
                stream.flush()
            except (OSError, ValueError):
                return

    debug = info = warning = error = critical = write


class Aside:
    """Lines that wait for a thread that has time, so that the event loop does not write them.

    A write to an instrument is two lines. Any thread writes them out, and every other line does so
    first, so that the log keeps its order. A crash loses those that wait: what went wrong is never
    put here.

    Attributes:
        waiting: when it was, the logger, event and fields of each.
    """

    def __init__(self) -> None:
        self.waiting: collections.deque[tuple[datetime, Any, str, dict[str, Any]]] = (
            collections.deque()
        )
        self._turn = threading.Lock()

    def put(self, log: Any, event: str, **fields: object) -> None:
        """Have ``log``, a structlog logger, write an info line soon, with the time of now."""
        self.waiting.append((datetime.now(UTC), log, event, fields))
        if len(self.waiting) > MOST_ASIDE:
            self.write()

    def write(self) -> None:
        """Write all that wait, unless a thread is at it."""
        if not self.waiting or not self._turn.acquire(blocking=False):
            return
        try:
            while self.waiting:
                at, log, event, fields = self.waiting.popleft()
                log.info(event, _at=at, **fields)
        finally:
            self._turn.release()


ASIDE: Final = Aside()
MOST_ASIDE: Final = 1_000
"""Lines that wait for a thread that may hang at a disk."""
LEVELS: Final = {"warn": "warning", "exception": "error"}
"""The methods of a logger that are not called like their level."""
_ENCODER: Final = json.JSONEncoder(default=str)


def _render_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    return _ENCODER.encode(event)


def _scrub_field(name: str, value: Any, depth: int) -> Any:
    return REMOVED if value and _is_secret(name[-64:]) else scrub(value, depth=depth + 1)


@functools.lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    """Whether a field loses its value; by the end of its name, which may be anybody's."""
    plain = name.replace("-", "_").lower()
    return SECRET_NAMES.search(plain) is not None and plain not in HARMLESS_NAMES


def _scrub_line(text: str) -> str:
    if SECRET_TEXTS.search(text) is not None:
        text = _scrub_text(text)
    return text if text.isprintable() else text.translate(CONTROL)


def _scrub_text(text: str) -> str:
    return SECRET_TEXTS.sub(lambda found: (found.group("scheme") or "") + REMOVED, text)


def _complete(
    logger: Any, method: str, event: MutableMapping[str, Any], *, is_utc: bool
) -> MutableMapping[str, Any]:
    """Make an event ready to be rendered: without secrets, with level, logger and time.

    In one function, because writes make two lines each.
    """
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    for name, value in event.items():
        if name in KEPT_LINES:
            event[name] = _scrub_text(str(value))
        elif not name.startswith("_"):
            # What most fields are is not worth a function.
            if value and _is_secret(name[-64:]):
                event[name] = REMOVED
            elif type(value) is str:
                if not value.isprintable() or SECRET_TEXTS.search(value) is not None:
                    event[name] = _scrub_line(value)
            elif type(value) not in PLAIN:
                event[name] = scrub(value, depth=1)
    record = event.get("_record")
    event["level"] = LEVELS.get(method, method)
    event["logger"] = logger.name if record is None else record.name
    at: datetime = event.pop("_at", None) or datetime.now(UTC)
    event["timestamp"] = (
        f"{at.replace(tzinfo=None).isoformat()}Z"
        if is_utc
        else at.astimezone().replace(tzinfo=None).isoformat()
    )
    return event
