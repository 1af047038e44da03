"""Profile files and directories of them → Profiles.

A directory may hold anything: a bad file becomes a complaint and never keeps the good ones from
being loaded. Later directories override earlier ones by ``profile_key``. An override that cannot be
read takes the profile that it was to replace out of use as well, instead of letting it come back:
the override may have been made to narrow it.

``extends``: a profile written as its difference from another one of the family, one level deep.

Mappings merge entry by entry down to a single parameter; whatever is one thought (``returns``,
``verify``, ``sweep``, ``by``, a list of steps…) is replaced whole; ``null`` takes an entry away.
Nodes keep their places, so a complaint names the file in which the offending line stands.

A YAML tree as text again: a profile with what it inherits, each inherited line saying whence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from edged.errors import Invalid
from edged.profiles.format.profile import PROFILE, read_profile
from edged.profiles.library import Complaint, ProfileLibrary, parse_yaml, read_file
from edged.profiles.model import Profile
from edged.record import record
from edged.schema.fields import complaint, every_complaint, map_of, nearest
from edged.yaml.tree import ListNode, MapNode, Node, ScalarNode

Parse = Callable[[str, Path], MapNode]

_OWN: Final = frozenset(key.name for key in PROFILE.keys.values() if key.is_own)
"""What says which instrument this is: never inherited."""
_WHOLE: Final = frozenset(
    {
        "match", "returns", "verify", "complete", "errors", "sweep", "map", "by", "result", "for",
        "probe", "precondition", "acquisition", "limited", "watchdog",
    }
)  # fmt: skip
_NAMED: Final = frozenset({"commands", "sequences", "parameters"})
"""Below them stand names that the author gave: a command may be called ``sweep``."""


def merge(family: MapNode, member: MapNode) -> MapNode:
    """The whole profile that ``member`` says, with what it inherits.

    Raises:
        Invalid: the family extends another one itself, or the member takes away what is not there.
    """
    if "extends" in family.entries:
        mark = member.keys["extends"].mark
        raise complaint(mark, "A family that extends another family cannot be extended.")
    entries = {name: node for name, node in family.entries.items() if name not in _OWN}
    keys = {name: family.keys[name] for name in entries}
    return _joined(MapNode(family.mark, entries, keys), member)


def _joined(family: MapNode, member: MapNode, *, is_named: bool = False) -> MapNode:
    entries = dict(family.entries)
    keys = dict(family.keys)
    for name, node in member.entries.items():
        inherited = entries.get(name)
        if _is_null(node) and inherited is not None:
            del entries[name], keys[name]
            continue
        if isinstance(inherited, MapNode) and isinstance(node, MapNode):
            if is_named:
                node = _joined(inherited, node)
            elif name not in _WHOLE:
                node = _joined(inherited, node, is_named=name in _NAMED)
        entries[name] = node
        keys[name] = member.keys[name]
    return MapNode(member.mark, entries, keys)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def yaml_text(root: MapNode, path: str) -> str:
    """The tree as block YAML; what does not stand in ``path`` gets its place as a comment."""
    return "\n".join(_lines(root, path, 0)) + "\n"


def _lines(node: MapNode, path: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, entry in node.entries.items():
        mark = node.keys[name].mark
        told = "" if mark.path == path else f"  # {Path(mark.path).name}:{mark.line}"
        key = f"{indent}{_scalar_text(name)}:"
        if isinstance(entry, MapNode) and entry.entries and depth < 4:
            yield f"{key}{told}"
            yield from _lines(entry, path, depth + 1)
        else:
            yield f"{key} {_flow(entry)}{told}"


def _flow(node: Node) -> str:
    match node:
        case ScalarNode(value=str(text)):
            return json.dumps(text, ensure_ascii=False)
        case ScalarNode(value=None):
            return "null"
        case ScalarNode(text=text):
            return text
        case ListNode(items=items):
            return "[" + ", ".join(map(_flow, items)) + "]"
        case MapNode(entries=entries):
            inner = (f"{_scalar_text(name)}: {_flow(entry)}" for name, entry in entries.items())
            return "{" + ", ".join(inner) + "}"


def _scalar_text(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name.isascii() else json.dumps(name)


MOST_FILES: Final = 1_000
_SUFFIXES: Final = (".yaml", ".yml")


def load_profile(path: Path) -> Profile:
    """One profile; a family that it extends is looked for beside it, as ``<key>.yaml``.

    Raises:
        Invalid: unreadable or breaking a rule; ``data`` has path, line and column.
    """
    return _resolved(parse_file(read_file(path), path), path, _Beside(path.parent))


def parse_profile(text: str, path: str = "profile.yaml") -> Profile:
    """A profile from text, for tests and editors; it cannot extend another.

    Raises:
        Invalid: as ``load_profile``.
    """
    return _resolved(parse_file(text, Path(path)), Path(path), {})


def resolved_text(path: Path) -> str:
    """A profile with what it inherits, as YAML; inherited lines say where they stand.

    Raises:
        Invalid: as ``load_profile``.
    """
    root = parse_file(read_file(path), path)
    return yaml_text(_merged(root, _Beside(path.parent)), str(path))


def load_library(directories: Sequence[Path], parse: Parse | None = None) -> ProfileLibrary:
    """Every ``*.yaml`` of these directories; a missing one is passed over. Never raises.

    Args:
        parse: ``parse_file``, or what gives the same.
    """
    complaints: list[Complaint] = []
    sources: dict[str, _Source] = {}
    for directory in directories:
        _read_directory(directory, sources, complaints, parse or parse_file)
    roots = {key: source.root for key, source in sources.items()}
    profiles: dict[str, Profile] = {}
    for key, source in sources.items():
        try:
            profiles[key] = _resolved(source.root, source.path, roots)
        except Invalid as error:
            complaints += complaints_of(error, source.path)
    return ProfileLibrary(profiles=profiles, complaints=tuple(complaints))


@record(kw_only=False)
class _Source:
    root: MapNode
    path: Path


def parse_file(text: str, path: Path) -> MapNode:
    """The tree of a profile's text.

    Raises:
        Invalid: it is no YAML, or no mapping.
    """
    return map_of(parse_yaml(text, str(path)), "A profile")


def _read_directory(
    directory: Path, sources: dict[str, _Source], complaints: list[Complaint], parse: Parse
) -> None:
    """Adds a directory's files to ``sources``, over those of earlier directories."""
    seen: dict[str, Path] = {}
    for path in _files(directory, complaints):
        try:
            root = parse(read_file(path), path)
            key = _key_of(root)
            if key in seen:
                mark = root.keys["profile_key"].mark
                raise complaint(mark, f'{seen[key].name} has the profile_key "{key}" already.')
        except Invalid as error:
            complaints += complaints_of(error, path)
            if path.stem not in seen:
                sources.pop(path.stem, None)
            continue
        seen[key] = path
        sources[key] = _Source(root, path)


def _files(directory: Path, complaints: list[Complaint]) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(_SUFFIXES) and not entry.name.startswith(".")
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"The directory cannot be read: {error.strerror}."
        complaints.append(Complaint(path=str(directory), line=1, column=1, message=message))
        return []
    if len(names) > MOST_FILES:
        message = f"There are {len(names)} profiles here; the first {MOST_FILES} are read."
        complaints.append(Complaint(path=str(directory), line=1, column=1, message=message))
    return [directory / name for name in names[:MOST_FILES]]


def _key_of(root: MapNode) -> str:
    node = root.entries.get("profile_key")
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        raise complaint(root.mark, 'The profile has no "profile_key".')
    return node.value


class _Beside(dict[str, MapNode]):
    """Families as files beside a profile, read when asked for."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, key: str) -> MapNode:
        for suffix in _SUFFIXES:
            path = self._directory / f"{key}{suffix}"
            if key.isidentifier() and path.exists():
                return parse_file(read_file(path), path)
        raise KeyError(key)


def _resolved(root: MapNode, path: Path, families: Mapping[str, MapNode]) -> Profile:
    """The profile of a root node, with what it inherits."""
    return read_profile(_merged(root, families), str(path))


def _merged(root: MapNode, families: Mapping[str, MapNode]) -> MapNode:
    node = root.entries.get("extends")
    if node is None:
        return root
    mark = root.keys["extends"].mark
    name = node.text if isinstance(node, ScalarNode) else ""
    try:
        family = families[name]
    except KeyError:
        message = f'There is no profile "{name}" to extend.'
        raise complaint(mark, message, nearest(name, families)) from None
    except Invalid as error:
        raise complaint(mark, f'The family "{name}" cannot be read: {error.message}') from None
    if family is root:
        raise complaint(mark, f'"{name}" cannot extend itself.')
    return merge(family, root)


def complaints_of(error: Invalid, path: Path) -> tuple[Complaint, ...]:
    """What an error of this chapter says, as values."""
    return tuple(_complaint_of(one, path) for one in every_complaint(error))


def _complaint_of(error: Invalid, path: Path) -> Complaint:
    data = error.data
    return Complaint(
        path=str(data.get("path", path)),
        line=int(data.get("line", 1)),
        column=int(data.get("column", 1)),
        message=str(data.get("message", error.message)),
        remedy=error.remedy,
    )
