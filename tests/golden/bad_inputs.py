"""Bad inputs of all kinds that an owner or an author writes, and the complaints about each.

A case is one JSON object: ``of`` names the reader, the other keys are its input. ``said`` answers
with every complaint, as ``place: message [remedy]``. Paths of this machine are ``DIR``.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from edged.config.load import load_config
from edged.errors import Invalid
from edged.host import Places
from edged.profiles.bench_file import parse_bench
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import load_library, load_profile, parse_profile
from edged.profiles.model import Profile
from edged.schema.fields import every_complaint
from edged.sdk.specs import SpecSource, read_specs
from tests.bench.engine_process import REPOSITORY
from tests.bench.shipped import shipped_library
from tests.golden import mutations

Case = Mapping[str, Any]


def said(case: Case) -> list[str]:
    """All complaints about the input of a case; empty where it is accepted."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        try:
            found = READERS[case["of"]](case, directory)
        except Invalid as error:
            found = lines_of(error)
        names = {str(directory): "DIR", str(REPOSITORY): "TREE"}
        return [_without(line, names) for line in found]


def lines_of(error: Invalid) -> list[str]:
    """An error as lines, one for each complaint."""
    if "complaints" in error.data:
        return [f"{one['where']}: {one['message']}" for one in error.data["complaints"]]
    return [_line(one) for one in every_complaint(error)]


def _line(error: Invalid) -> str:
    return f"{error.message} [{error.remedy}]" if error.remedy else error.message


def _without(line: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        line = line.replace(path, name)
    return line


def _profile(case: Case, _: Path) -> list[str]:
    parse_profile(text_of(case), case.get("path", "profile.yaml"))
    return []


def text_of(case: Case) -> str:
    if "text" in case:
        return str(case["text"])
    return mutations.text_of(case["base"], case["at"], case["put"])


def _profile_file(case: Case, directory: Path) -> list[str]:
    _write(directory, case["files"])
    load_profile(directory / case["file"])
    return []


def _library(case: Case, directory: Path) -> list[str]:
    folders = [directory / str(number) for number in range(len(case["folders"]))]
    for folder, files in zip(folders, case["folders"], strict=True):
        folder.mkdir()
        _write(folder, files)
    return [
        f"{one.path}:{one.line}:{one.column}: {one.message}"
        + (f" [{one.remedy}]" if one.remedy else "")
        for one in load_library(folders).complaints
    ]


def _bench(case: Case, _: Path) -> list[str]:
    profiles = [_known_profile(told) for told in case["profiles"]]
    library = ProfileLibrary(profiles={profile.key: profile for profile in profiles})
    parse_bench(text_of(case), case.get("path", "bench.yaml"), library)
    return []


@cache
def _known_profile(told: str) -> Profile:
    """A shipped profile by its key, or a profile by its text."""
    found = shipped_library().profiles.get(told)
    return parse_profile(told, "own.yaml") if found is None else found


def _config(case: Case, directory: Path) -> list[str]:
    text = text_of(case)
    if text:
        (directory / "edged.yaml").write_text(text, encoding="utf-8")
    for name, content in case.get("drop_ins", {}).items():
        (directory / "edged.yaml.d").mkdir(exist_ok=True)
        (directory / "edged.yaml.d" / name).write_text(content, encoding="utf-8")
    load_config(
        places=places(directory),
        environ=case.get("environ", {}),
        flags=[(key, value, flag) for key, value, flag in case.get("flags", [])],
        is_simulated=False,
    )
    return []


def places(directory: Path) -> Places:
    """Everything of a machine below one directory."""
    return Places(
        config_file=directory / "edged.yaml",
        bench_file=directory / "bench.yaml",
        state_dir=directory / "state",
        data_dir=directory / "data",
        profile_dirs=(directory / "profiles",),
        own_profile_dir=directory / "profiles",
        sdk_wrapper_dirs=(),
        state_dirs=(directory / "state",),
    )


def _specs(case: Case, _: Path) -> list[str]:
    read_specs(case["specs"], SpecSource(**case["source"]))
    return []


def _write(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")


READERS: Final[Mapping[str, Callable[[Case, Path], list[str]]]] = {
    "profile": _profile,
    "profile file": _profile_file,
    "library": _library,
    "bench file": _bench,
    "configuration": _config,
    "SDK specifications": _specs,
}

CASES: Final = Path(__file__).with_name("complaints.jsonl")


def kept_cases() -> list[dict[str, Any]]:
    """The cases of the golden file, with what was said about each (``said``)."""
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def complaints() -> Iterator[str]:
    """The golden file with today's answers."""
    for case in kept_cases():
        case["said"] = said(case)
        yield json.dumps(case, ensure_ascii=False)


NAMES: Final = re.compile(r'"[^"]*"|\'[^\']*\'|[\w./:-]*[\d_./][\w./:-]*')


def sentence_of(line: str) -> str:
    """A complaint without the names and numbers of its case."""
    return NAMES.sub("…", line)
