"""Values of configuration keys: what a YAML value must look like to become one of ours.

Each ``Kind`` holds one sort of value: how it is called in the documentation, and the function that
turns a ``Value`` into the configured thing or says in a sentence why it cannot. Nothing here knows
which keys there are; ``keys.py`` does.

The configuration's YAML, as values that know their lines.

Made for files that people write and that nobody has checked: smaller than a profile may be, and
without anchors and aliases (with them a file of one kilobyte can mean gigabytes).
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from edged.record import record
from edged.yaml.file import read_text
from edged.yaml.tree import (
    ListNode,
    MapNode,
    Mark,
    Node,
    NotFinite,
    ScalarNode,
    YamlProblem,
    core_scalar,
)

# A configuration of a hundred instruments is 20 kB; the parser needs a second for 256 KiB.
MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 20_000


@record
class Value:
    """A value and where it stood.

    Attributes:
        data: None, bool, int, float, str, a list of ``Value``, or a dict from str to ``Value``.
        line: 1-based line of the value; of an entry of a mapping, the line of its key.
        text: what was written, of a scalar.
    """

    data: Any
    line: int
    text: str = ""

    def plain(self) -> Any:
        """The data without lines."""
        match self.data:
            case list():
                return [item.plain() for item in self.data]
            case dict():
                return {key: item.plain() for key, item in self.data.items()}
            case _:
                return self.data


def read_file(path: Path) -> Value:
    """The value of a whole file; an empty one is None.

    Raises:
        YamlProblem: it cannot be read, or not used.
    """
    return parse_text(read_text(path, MAX_BYTES), str(path))


def parse_text(text: str, path: str = "") -> Value:
    """The value of one YAML document.

    Raises:
        YamlProblem: it is no YAML, or more than a small file of plain values.
    """
    if len(text) > MAX_BYTES:
        start = Mark(path=path, line=1, column=1)
        raise YamlProblem(start, f"The text is longer than {MAX_BYTES // 1024} KiB.")
    if _says_nothing(text):
        return Value(data=None, line=1)
    # Imported here because most commands of the CLI run without any value to read.
    from edged.yaml.source import Bounds, parse_document

    bounds = Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_VALUES, has_aliases=False)
    root = parse_document(text, path, bounds)
    return Value(data=None, line=1) if root is None else _value(root, root.mark.line)


def _says_nothing(text: str) -> bool:
    """Whether there are comments only, as in the file that the Debian package ships.

    Every verb reads that file, and none needs the parser for it, which takes longer to load than
    the rest of a verb. What is odd in a comment (control characters) is left to the parser.
    """
    lines = (line.strip(" \r") for line in text.split("\n"))
    return all(not line or (line[0] == "#" and line.isprintable()) for line in lines)


def parse_scalar(text: str) -> Value:
    """What one word means that was given without a file.

    Raises:
        YamlProblem: it is a number without end.
    """
    try:
        return Value(data=core_scalar(text), line=1, text=text)
    except NotFinite as error:
        raise YamlProblem(Mark(path="", line=1, column=1), str(error)) from None


def _value(node: Node, line: int) -> Value:
    match node:
        case ScalarNode():
            return Value(data=node.value, line=line, text=node.text)
        case ListNode():
            return Value(data=[_value(item, item.mark.line) for item in node.items], line=line)
        case MapNode():
            entries = {
                key: _value(entry, node.keys[key].mark.line) for key, entry in node.entries.items()
            }
            return Value(data=entries, line=line)


IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
OptionT = TypeVar("OptionT", bound=enum.StrEnum)

MAX_ENTRIES: Final = 1_000
MAX_TEXT: Final = 1_000
NOT_BOOLEANS: Final = frozenset({"on", "off", "yes", "no", "y", "n", "0", "1"})
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class BadValue(Exception):
    """Why a value cannot be taken: a sentence without its end, after "MCP_PORT"; and its line."""

    def __init__(self, reason: str, value: Value) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = value.line


@record
class Kind:
    """One sort of value.

    Attributes:
        name: how the documentation calls it ("integer 0..65535").
        parse: value and the directory that relative paths start from → the configured thing.
    """

    name: str
    parse: Callable[[Value, Path], Any]


def _shown(value: Value) -> str:
    match value.data:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing"
        case _:
            return repr(value.text)[:80]


def _boolean(value: Value, _base: Path) -> bool:
    if isinstance(value.data, bool):
        return value.data
    hint = (
        " (YAML 1.2: on, off, yes and no are words)" if value.text.lower() in NOT_BOOLEANS else ""
    )
    raise BadValue(f"must be true or false{hint}, not {_shown(value)}", value)


def _text(value: Value, _base: Path) -> str:
    match value.data:
        case str() | int() | float() if not isinstance(value.data, bool):
            # Unquoted 12345 as a token or name is meant as it is written.
            text = value.text
        case _:
            raise BadValue(f"must be a text, not {_shown(value)}", value)
    if not text or len(text) > MAX_TEXT or not text.isprintable():
        raise BadValue(f"must be 1 to {MAX_TEXT} printable characters", value)
    return text


def _path(value: Value, base: Path) -> Path:
    text = _text(value, base)
    try:
        expanded = Path(text).expanduser()
    except RuntimeError as error:
        raise BadValue(f"names a home directory that does not exist: {text}", value) from error
    return base / expanded


def integer(low: int, high: int) -> Kind:
    """A whole number in those bounds."""

    def parse(value: Value, _base: Path) -> int:
        number = value.data
        if isinstance(number, bool) or not isinstance(number, int):
            raise BadValue(f"must be a whole number, not {_shown(value)}", value)
        if not low <= number <= high:
            side = f"under the minimum {low}" if number < low else f"over the maximum {high}"
            raise BadValue(f"is {number}, which is {side}", value)
        return number

    return Kind(name=f"integer {low}..{high}", parse=parse)


def choice(options: type[OptionT]) -> Kind:
    """One word of a closed set."""
    names = [option.value for option in options]

    def parse(value: Value, _base: Path) -> OptionT:
        text = value.text
        if text not in names or isinstance(value.data, bool):
            # `off` is a word in YAML 1.2, but whoever writes `false` for it means well.
            raise BadValue(f"must be one of {', '.join(names)}, not {_shown(value)}", value)
        return options(text)

    return Kind(name=" \\| ".join(names), parse=parse)


def matching(name: str, pattern: str, reason: str) -> Kind:
    """A text that a pattern matches as a whole; ``reason`` follows "must"."""
    return matching_each(name, (pattern, reason))


def matching_each(name: str, *rules: tuple[str, str]) -> Kind:
    """A text that each pattern matches as a whole.

    Args:
        rules: pattern, and what follows "must" where it is the first that does not match.
    """
    compiled = [(re.compile(pattern), reason) for pattern, reason in rules]

    def parse(value: Value, base: Path) -> str:
        text = _text(value, base)
        for pattern, reason in compiled:
            if not pattern.fullmatch(text):
                raise BadValue(f"must {reason}, not {_shown(value)}", value)
        return text

    return Kind(name=name, parse=parse)


def url(*schemes: str, insecure: str = "") -> Kind:
    """A URL of one of those schemes; ``insecure`` is one more, for loopback addresses only."""

    def parse(value: Value, base: Path) -> str:
        text = _text(value, base)
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise BadValue(f"is no URL: {error}", value) from error
        if not host or any(character.isspace() for character in text):
            raise BadValue(f"must be a URL, not {_shown(value)}", value)
        if parts.scheme in schemes or (parts.scheme == insecure and _is_loopback(host)):
            return text
        wanted = " or ".join(f"{scheme}://" for scheme in schemes)
        but = f" ({insecure}:// only to a loopback address)" if insecure else ""
        raise BadValue(f"must begin with {wanted}{but}, not {_shown(value)}", value)

    return Kind(name=f"URL ({', '.join(schemes)})", parse=parse)


def list_of(item: Kind, name: str = "") -> Kind:
    """A list of values of one kind, as a tuple; doubles are dropped. A lone value is refused."""

    def parse(value: Value, base: Path) -> tuple[Any, ...]:
        if not isinstance(value.data, list):
            message = f"must be a list like [a, b], or [] for none, not {_shown(value)}"
            raise BadValue(message, value)
        if len(value.data) > MAX_ENTRIES:
            raise BadValue(f"has more than {MAX_ENTRIES} entries", value)
        return tuple(dict.fromkeys(item.parse(entry, base) for entry in value.data))

    return Kind(name=name or f"list of {item.name}", parse=parse)


def map_of(item: Kind) -> Kind:
    """A mapping from names to values of one kind."""

    def parse(value: Value, base: Path) -> Mapping[str, Any]:
        if not isinstance(value.data, dict):
            raise BadValue(f"must be a mapping like {{name: value}}, not {_shown(value)}", value)
        return MappingProxyType({key: item.parse(entry, base) for key, entry in value.data.items()})

    return Kind(name=f"map of name to {item.name}", parse=parse)


def _network(value: Value, base: Path) -> IpNetwork:
    text = _text(value, base)
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise BadValue(f"must be a network like 192.168.0.0/16: {error}", value) from error


def _host_or_network(value: Value, base: Path) -> str | IpNetwork:
    text = _text(value, base)
    if "/" in text:
        return _network(value, base)
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        if HOST_NAME.fullmatch(text):
            return text
    raise BadValue(f"must be a host, an address or a CIDR, not {_shown(value)}", value)


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
BOOL: Final = Kind(name="true \\| false", parse=_boolean)
TEXT: Final = Kind(name="text", parse=_text)
NAME: Final = matching("name", r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", "be a name of 64 characters")
PLACE: Final = Kind(name="directory", parse=_path)
FILE: Final = Kind(name="file", parse=_path)
NETWORK: Final = Kind(name="CIDR", parse=_network)
HOST_OR_NETWORK: Final = Kind(name="host or CIDR", parse=_host_or_network)
