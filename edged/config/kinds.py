"""The configuration's YAML, and kinds of values that only the configuration has.

Made for files that people write and that nobody has checked: smaller than a profile may be, and
without anchors and aliases (with them a file of one kilobyte can mean gigabytes).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from edged.schema.fields import Fields, complaint, text_of
from edged.schema.tables import TEXT_SCHEMA, Kind, array, entries, made
from edged.yaml.file import read_text
from edged.yaml.tree import Mark, Node, NotFinite, ScalarNode, YamlProblem, core_scalar

# A configuration of a hundred instruments is 20 kB; the parser needs a second for 256 KiB.
MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 20_000


def read_file(path: Path) -> Node | None:
    """The tree of a whole file; an empty one is None.

    Raises:
        YamlProblem: it cannot be read, or not used.
    """
    return parse_text(read_text(path, MAX_BYTES), str(path))


def parse_text(text: str, path: str = "") -> Node | None:
    """The tree of one YAML document.

    Raises:
        YamlProblem: it is no YAML, or more than a small file of plain values.
    """
    if len(text) > MAX_BYTES:
        start = Mark(path=path, line=1, column=1)
        raise YamlProblem(start, f"The text is longer than {MAX_BYTES // 1024} KiB.")
    if _says_nothing(text):
        return None
    # Imported here because most commands of the CLI run without any value to read.
    from edged.yaml.source import Bounds, parse_document

    bounds = Bounds(max_depth=MAX_DEPTH, max_nodes=MAX_VALUES, has_aliases=False)
    return parse_document(text, path, bounds)


def _says_nothing(text: str) -> bool:
    """Whether there are comments only, as in the file that the Debian package ships.

    Every verb reads that file, and none needs the parser for it, which takes longer to load than
    the rest of a verb. What is odd in a comment (control characters) is left to the parser.
    """
    lines = (line.strip(" \r") for line in text.split("\n"))
    return all(not line or (line[0] == "#" and line.isprintable()) for line in lines)


def parse_scalar(text: str) -> ScalarNode:
    """What one word means that was given without a file.

    Raises:
        YamlProblem: it is a number without end.
    """
    mark = Mark(path="", line=1, column=1)
    try:
        return ScalarNode(mark, core_scalar(text), text)
    except NotFinite as error:
        raise YamlProblem(mark, str(error)) from None


IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_TEXT: Final = 1_000
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def printed_of(node: Node, name: str, most: int = MAX_TEXT) -> str:
    """A text as it is written, in one line; raises Invalid: none, or with control characters."""
    text = text_of(node, name, most=most)
    if not text.strip() or (isinstance(node, ScalarNode) and "\n" in node.text):
        raise complaint(node.mark, f"{name} must be 1 to {most} printable characters.")
    return text


def _text(fields: Fields, key: str, node: Node, _names: Collection[str]) -> str:
    return printed_of(node, fields.name_of(key))


def _path(fields: Fields, key: str, node: Node, names: Collection[str]) -> Path:
    """As it is written: ``load`` knows where it starts from."""
    text = _text(fields, key, node, names)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        message = f"{fields.name_of(key)} names a home directory that does not exist: {text}."
        raise complaint(node.mark, message) from error


def matching(name: str, pattern: str, reason: str) -> Kind:
    """A text that a pattern matches as a whole; ``reason`` follows "must"."""
    return matching_each(name, (pattern, reason))


def matching_each(name: str, *rules: tuple[str, str]) -> Kind:
    """A text that each pattern matches as a whole.

    Args:
        rules: pattern, and what follows "must" where it is the first that does not match.
    """
    compiled = [(re.compile(pattern), reason) for pattern, reason in rules]

    def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
        text = _text(fields, key, node, names)
        for pattern, reason in compiled:
            if not pattern.fullmatch(text):
                message = f'{fields.name_of(key)} must {reason}, not "{text[:80]}".'
                raise complaint(node.mark, message)
        return text

    return Kind(name, TEXT_SCHEMA, read)


def url(*schemes: str, insecure: str = "") -> Kind:
    """A URL of one of those schemes; ``insecure`` is one more, for loopback addresses only."""
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    but = f" ({insecure}:// only to a loopback address)" if insecure else ""

    def read(fields: Fields, key: str, node: Node, names: Collection[str]) -> str:
        text = _text(fields, key, node, names)
        name = fields.name_of(key)
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise complaint(node.mark, f"{name} is no URL: {error}.") from error
        if not host or any(character.isspace() for character in text):
            raise complaint(node.mark, f'{name} must be a URL, not "{text[:80]}".')
        if parts.scheme in schemes or (parts.scheme == insecure and _is_loopback(host)):
            return text
        message = f'{name} must begin with {wanted}{but}, not "{text[:80]}".'
        raise complaint(node.mark, message)

    return Kind(f"URL ({', '.join(schemes)})", TEXT_SCHEMA, read)


def list_of(item: Kind) -> Kind:
    """A list of values of one kind, as a tuple; doubles are dropped. A lone value is refused."""
    return made(array(item), lambda found: tuple(dict.fromkeys(found)))


def map_of(item: Kind) -> Kind:
    """A mapping from names to values of one kind."""
    return made(entries("name", item), MappingProxyType)


def _network(fields: Fields, key: str, node: Node, names: Collection[str]) -> IpNetwork:
    text = _text(fields, key, node, names)
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        message = f"{fields.name_of(key)} must be a network like 192.168.0.0/16: {error}."
        raise complaint(node.mark, message) from error


def _host_or_network(
    fields: Fields, key: str, node: Node, names: Collection[str]
) -> str | IpNetwork:
    text = _text(fields, key, node, names)
    if "/" in text:
        return _network(fields, key, node, names)
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        if HOST_NAME.fullmatch(text):
            return text
    message = f'{fields.name_of(key)} must be a host, an address or a CIDR, not "{text[:80]}".'
    raise complaint(node.mark, message)


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
TEXT: Final = Kind("text", TEXT_SCHEMA, _text)
NAME: Final = matching("name", r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", "be a name of 64 characters")
PLACE: Final = Kind("directory", TEXT_SCHEMA, _path)
FILE: Final = Kind("file", TEXT_SCHEMA, _path)
NETWORK: Final = Kind("CIDR", TEXT_SCHEMA, _network)
HOST_OR_NETWORK: Final = Kind("host or CIDR", TEXT_SCHEMA, _host_or_network)
