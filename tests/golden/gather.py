"""Gathers bad inputs for ``complaints.jsonl``: from the tests, and by breaking whole inputs.

``pytest -p tests.golden.gather tests/unit/profiles …`` writes what tests give to the readers and is
refused; ``python -m tests.golden.gather`` adds to the golden file those of these, and those of the
mutations, that are answered in words that no case before has.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import edged.config.load
import edged.profiles.bench_file
import edged.profiles.loading
import edged.sdk.specs
from edged.errors import EdgedError
from edged.profiles.library import ProfileLibrary
from tests.golden import mutations
from tests.golden.bad_inputs import CASES, kept_cases, said, sentence_of

GATHERED: Final = Path(os.environ.get("GATHERED", "/tmp/edged_gathered.jsonl"))
LONGEST: Final = 3_000
_texts: dict[int, tuple[Any, str]] = {}
"""Profiles that were read from a text, by identity."""


def _files(directory: Path) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(directory.glob("*.y*ml"))
        if path.is_file()
    }


def _of_profile(told: dict[str, Any]) -> dict[str, Any]:
    return {"of": "profile", "text": told["text"], "path": told["path"]}


def _of_file(told: dict[str, Any]) -> dict[str, Any]:
    path = Path(told["path"])
    return {"of": "profile file", "file": path.name, "files": _files(path.parent)}


def _of_library(told: dict[str, Any]) -> dict[str, Any]:
    return {"of": "library", "folders": [_files(Path(one)) for one in told["directories"]]}


def _of_bench(told: dict[str, Any]) -> dict[str, Any]:
    library: ProfileLibrary = told["library"]
    profiles = [
        _texts[id(one)][1] if id(one) in _texts else one.key for one in library.profiles.values()
    ]
    return {"of": "bench file", "text": told["text"], "path": told["path"], "profiles": profiles}


def _of_config(told: dict[str, Any]) -> dict[str, Any]:
    file = told["places"].config_file
    drop_ins = file.with_name(f"{file.name}.d")
    return {
        "of": "configuration",
        "text": file.read_text(encoding="utf-8") if file.exists() else "",
        "drop_ins": _files(drop_ins) if drop_ins.is_dir() else {},
        "environ": {k: v for k, v in told["environ"].items() if k.startswith("EDGED_")},
        "flags": [list(flag) for flag in told["flags"]],
    }


def _of_specs(told: dict[str, Any]) -> dict[str, Any]:
    source = told["source"]
    fields = {name: getattr(source, name) for name in ("stem", "path", "line", "lines", "methods")}
    return {"of": "SDK specifications", "specs": told["specs"], "source": fields}


READERS: Final = (
    (edged.profiles.loading, "parse_profile", _of_profile),
    (edged.profiles.loading, "load_profile", _of_file),
    (edged.profiles.loading, "load_library", _of_library),
    (edged.profiles.bench_file, "parse_bench", _of_bench),
    (edged.config.load, "load_config", _of_config),
    (edged.sdk.specs, "read_specs", _of_specs),
)


def _recorded(read: Callable[..., Any], case_of: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(read)

    @functools.wraps(read)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        try:
            result = read(*arguments, **named)
        except EdgedError:
            _keep(signature, case_of, arguments, named)
            raise
        if read.__name__ == "parse_profile":
            _texts[id(result)] = (result, arguments[0])
        if read.__name__ == "load_library" and result.complaints:
            _keep(signature, case_of, arguments, named)
        return result

    return wrapped


def _keep(
    signature: inspect.Signature, case_of: Callable[..., Any], arguments: Any, named: Any
) -> None:
    bound = signature.bind(*arguments, **named)
    bound.apply_defaults()
    try:
        line = json.dumps(case_of(bound.arguments), ensure_ascii=False)
        with GATHERED.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except (TypeError, ValueError, OSError):
        return  # what is not text cannot be kept in a file of text


def pytest_configure() -> None:
    for module, name, case_of in READERS:
        setattr(module, name, _recorded(getattr(module, name), case_of))


def main() -> int:
    known = {_words(case["of"], line) for case in _kept() for line in case["said"]}
    added = 0
    with CASES.open("a", encoding="utf-8") as file:
        for case in (*_gathered(), *_mutated()):
            answer = said(case)
            fresh = {_words(case["of"], line) for line in answer[:3]} - known
            if fresh:
                known |= fresh
                added += 1
                file.write(json.dumps({**case, "said": answer}, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{added} cases added\n")
    return 0


def _kept() -> list[dict[str, Any]]:
    return kept_cases() if CASES.exists() else []


def _words(of: str, line: str) -> tuple[str, str]:
    return of, sentence_of(line)


def _gathered() -> Iterator[dict[str, Any]]:
    """The shortest first: of several that are answered alike it is the one to keep."""
    if GATHERED.exists():
        lines = set(GATHERED.read_text(encoding="utf-8").splitlines())
        for line in sorted(lines, key=lambda line: (len(line), line)):
            if len(line) <= LONGEST:
                yield json.loads(line)


def _mutated() -> Iterator[dict[str, Any]]:
    for base, of, more in BASES:
        for at, put in mutations.all_of(base):
            yield {"of": of, **more, "base": base, "at": at, "put": put}


BASES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("profile", "profile", {}),
    (
        "bench",
        "bench file",
        {"profiles": ["rigol_dp832", "siglent_spd3303x", "keysight_34461a", "keysight_n6700"]},
    ),
    ("configuration", "configuration", {}),
)


if __name__ == "__main__":
    raise SystemExit(main())
