"""The Python modules that the Debian package carries with it: locked, unpacked, and their licences.

    python packaging/vendored.py --lock
    python packaging/vendored.py --unpack WHEELS TARGET COPYRIGHT

Carried is what Debian lacks or has too old, and only pure Python: one package serves every release
and architecture. What is compiled, or speaks to the network, is Debian's and gets its updates.
"""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
LOCK: Final = HERE / "vendor.lock"
FULL_LOCK: Final = HERE.parent / "requirements.lock"

# With what they need themselves, as far as Debian does not have it in every release.
NAMES: Final = frozenset(
    {
        "nats-py",
        "python-jose",
        "ecdsa",
        "rsa",
        "pyasn1",
        "six",
        "pyusb",
        "pyvisa",
        "pyvisa-py",
        "typing-extensions",
        "ruamel-yaml",
        "structlog",
    }
)
LICENCE_NAMES: Final = re.compile(r"(?i)(^|/)(licen[cs]e|copying|notice|authors)[^/]*$")
# Not needed to run, and different on each machine that installs.
NOT_CARRIED: Final = re.compile(
    r"(?i)\.dist-info/(RECORD|WHEEL|top_level\.txt|entry_points\.txt|zip-safe)$"
)
COMMON: Final = {"Apache-2.0": "/usr/share/common-licenses/Apache-2.0"}
SPDX: Final = {
    "The MIT License": "MIT",
    "BSD-2-Clause": "BSD-2-clause",
    "MIT OR Apache-2.0": "MIT",
}
# Whose metadata name no licence, and no holder of the copyright, in a line of their own.
KNOWN_LICENCES: Final = {"pyusb": "BSD-3-clause"}

OURS: Final = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: edged

Files: *
Copyright: 2026 the edged developers
License: Apache-2.0
"""


def main(words: list[str]) -> int:
    match words:
        case ["--lock"]:
            LOCK.write_text(locked(FULL_LOCK.read_text()))
        case ["--unpack", wheels, target, copyright_file]:
            distributions = unpack(Path(wheels), Path(target))
            Path(copyright_file).write_text(copyright_of(distributions, Path(target)))
            drop_licences(Path(target))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def locked(full: str) -> str:
    """The part of the whole project's lock that is carried."""
    head = (
        "# The pure modules that the Debian package carries in /usr/lib/edged/vendor: a part of\n"
        "# requirements.lock, by `make lock`.\n"
    )
    blocks = re.split(r"\n(?=[a-z])", full)
    chosen = {block.split("==")[0]: block.rstrip() + "\n" for block in blocks}
    missing = NAMES - set(chosen)
    if missing:
        raise SystemExit(f"{FULL_LOCK} does not pin {', '.join(sorted(missing))}.")
    return head + "".join(chosen[name] for name in sorted(NAMES))


def unpack(wheels: Path, target: Path) -> list[Path]:
    """Unpack every wheel, and give the ``.dist-info`` directories."""
    for wheel in sorted(wheels.glob("*.whl")):
        if not wheel.name.endswith("-none-any.whl"):
            raise SystemExit(f"{wheel.name} is not pure Python; take it from Debian.")
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if ".data/" in name or NOT_CARRIED.search(name):
                    continue
                archive.extract(name, target)
    for path in target.rglob("*.py"):
        text = path.read_bytes()
        if text.startswith(b"#!"):
            # A module is no program, and the interpreter that it names may be another.
            path.write_bytes(text.partition(b"\n")[2])
        path.chmod(0o644)
    return sorted(target.glob("*.dist-info"))


def copyright_of(distributions: list[Path], target: Path) -> str:
    """``debian/copyright``, with what each wheel says about itself."""
    paragraphs = [OURS]
    texts = {"Apache-2.0": _by_reference("Apache-2.0")}
    for info in distributions:
        metadata = Parser().parsestr((info / "METADATA").read_text("utf-8"))
        name = str(metadata["Name"])
        stated = metadata["License-Expression"] or metadata["License"] or ""
        # Some put the whole text where its name belongs.
        stated = stated.strip().partition("\n")[0].strip()
        short = KNOWN_LICENCES.get(name) or SPDX.get(stated, stated)
        if not re.fullmatch(r"[\w.+-]+", short):
            raise SystemExit(f"{name}: {short!r} names no licence; add it to KNOWN_LICENCES")
        files = sorted(
            path
            for path in info.rglob("*")
            if path.is_file() and LICENCE_NAMES.search(str(path.relative_to(info)))
        )
        if short not in COMMON:
            # Each has its own wording.
            short = f"{short}-{name}"
            texts[short] = f"License: {short}\n{_indented(_text(files))}\n"
        holders = "\n           ".join(_holders(files, metadata))
        places = "\n       ".join(f"staged/vendor/{place}" for place in _places(info, target))
        paragraphs.append(f"Files: {places}\nCopyright: {holders}\nLicense: {short}\n")
    return "\n".join([*paragraphs, *texts.values()])


def drop_licences(target: Path) -> None:
    """Their text is in ``/usr/share/doc/edged/copyright``."""
    for info in target.glob("*.dist-info"):
        for path in sorted(info.rglob("*"), reverse=True):
            if path.is_file() and LICENCE_NAMES.search(str(path.relative_to(info))):
                path.unlink()
        shutil.rmtree(info / "licenses", ignore_errors=True)


def _places(info: Path, target: Path) -> Iterator[str]:
    yield f"{info.name}/*"
    name = info.name.split("-")[0]
    known = {"python_jose": "jose", "nats_py": "nats", "pyusb": "usb", "ruamel_yaml": "ruamel"}
    place = known.get(name, name)
    yield f"{place}/*" if (target / place).is_dir() else f"{place}.py"


def _text(files: list[Path]) -> str:
    licences = [path for path in files if re.search(r"(?i)licen[cs]e", path.name)]
    mit = [path for path in licences if "MIT" in path.name]
    return (mit or licences)[0].read_text("utf-8")


def _holders(files: list[Path], metadata: object) -> list[str]:
    found = []
    for path in files:
        for line in path.read_text("utf-8").splitlines():
            match = re.match(r"\s*Copyright (?:\(c\) |©\s*)?(\d{4}.*?)\.?\s*$", line, re.IGNORECASE)
            if match and "[yyyy]" not in line:
                found.append(match[1].replace("All rights reserved", "").strip(" ."))
    author = metadata["Author"] or metadata["Author-email"]  # type: ignore[index]
    return list(dict.fromkeys(found)) or [str(author)]


def _by_reference(short: str) -> str:
    return (
        f"License: {short}\n"
        " You may use, change and pass on these files under the Apache License, Version 2.0,\n"
        " without warranties or conditions of any kind. On Debian systems its text is in\n"
        f" {COMMON[short]}.\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
