"""``edged profile import``: draft profiles from PyMeasure drivers, which are not run.

Classes are read by their syntax: commands, limits, options and maps that are written as literals.
What only running code could tell is left out, and listed with its line and the reason. The drafts
are marked ``status: imported``, which restricts what may be done with them until somebody has
compared them with the manual. Without ``--output`` they go to standard output.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json, write_text
from edged.config.load import Config
from edged.errors import Invalid, NotFound
from edged.host import ExitStatus
from edged.profiles.library import read_file
from edged.profiles.library_cache import read_library
from edged.record import record
from edged.schema.fields import nearest
from edged.yaml.file import read_text
from edged.yaml.tree import YamlProblem
from edged_author.importing.declarations import LeftOut
from edged_author.importing.drafting import Draft
from edged_author.importing.importing import Imported, import_tree
from edged_author.importing.source import MAX_CHARACTERS, UnreadableError

MOST_FILES: Final = 5_000
MOST_FOLDERS: Final = 2_000
DEEPEST: Final = 16
PACKAGE: Final = "pymeasure"


@record
class PythonTree:
    """Files below a directory, those of them that are wanted, and what is passed over."""

    root: Path
    paths: tuple[str, ...]
    only: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    origin: str = ""

    def read(self, path: str) -> str:
        """The text of one file.

        Raises:
            UnreadableError: it is none that can be read.
        """
        try:
            return read_text(self.root / path, MAX_CHARACTERS)
        except YamlProblem as problem:
            raise UnreadableError(problem.sentence) from None


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged profile import", description=__doc__)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("file", nargs="?", type=Path, metavar="FILE.py", help="one driver's file")
    wanted.add_argument(
        "--pymeasure", metavar="VENDOR.CLASS", help="a class of the installed PyMeasure"
    )
    wanted.add_argument("--all", type=Path, metavar="DIR", help="every .py below a directory")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write KEY.yaml files there")
    add_config_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    tree, class_name = _wanted(options)
    imported = import_tree(
        tree.paths,
        tree.read,
        only=tree.only,
        class_name=class_name,
        taken=_taken(load(options).config, options.output),
        origin=tree.origin,
    )
    if class_name and not imported.drafts and not imported.left_out:
        raise NotFound(f"There is no class {class_name} in {tree.root}.")
    left_out = (*tree.left_out, *imported.left_out)
    kept = _write(imported.drafts, options.output) if options.output is not None else []
    if options.json:
        print_json(_as_json(imported, left_out, kept, options.output))
    else:
        _tell(imported, left_out, kept, options.output)
    return ExitStatus.OK if imported.drafts and not kept else ExitStatus.FAILED


def _wanted(options: argparse.Namespace) -> tuple[PythonTree, str]:
    """The tree that is read, and the one class that is wanted of it, if it is one."""
    if options.all is not None:
        if not options.all.is_dir():
            raise NotFound(f"{options.all} is not a directory.")
        return _tree(options.all), ""
    if options.file is not None:
        return _tree_around(options.file), ""
    vendor, _, class_name = options.pymeasure.partition(".")
    return _installed(vendor), class_name


def _tree(root: Path, *, deepest: int = DEEPEST) -> PythonTree:
    """Every Python file below a directory; links are not followed."""
    paths: list[str] = []
    left_out: list[LeftOut] = []
    for folders, (folder, inner, files) in enumerate(os.walk(root, followlinks=False)):
        here = Path(folder).relative_to(root)
        links = [name for name in inner if (Path(folder) / name).is_symlink()]
        inner[:] = sorted(set(inner) - set(links) - {"__pycache__"})
        if len(here.parts) + 1 >= deepest or folders > MOST_FOLDERS:
            inner.clear()
        for name in sorted((*links, *files)):
            path = (here / name).as_posix()
            why = _why_not(Path(folder) / name, path, len(paths))
            if not why:
                paths.append(path)
            elif name.endswith(".py") or name in links:
                left_out.append(LeftOut(path=ascii(path), line=1, what="the file", reason=why))
    found = tuple(paths)
    return PythonTree(root=root, paths=found, only=found, left_out=tuple(left_out))


def _why_not(file: Path, path: str, count: int) -> str:
    if file.is_symlink():
        return "It is a link; links are not followed."
    if not file.name.endswith(".py"):
        return "It is not a Python file."
    if not path.isprintable() or not path.isascii():
        return "Its name holds characters that no profile may name."
    return f"There are more than {MOST_FILES} files." if count >= MOST_FILES else ""


def _tree_around(file: Path) -> PythonTree:
    """One file, with the package in which it stands: bases are looked up there."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.")
    file = file.absolute()
    root = file.parent
    while (root / "__init__.py").is_file() and len(file.relative_to(root).parts) < DEEPEST:
        root = root.parent
    is_package = root != file.parent
    top = root / file.relative_to(root).parts[0] if is_package else root
    found = _tree(top, deepest=DEEPEST if is_package else 1)
    begins = f"{top.name}/" if is_package else ""
    path = file.relative_to(root).as_posix()
    paths = {f"{begins}{one}" for one in found.paths} | {path}
    return PythonTree(root=root, paths=tuple(sorted(paths)), only=(path,), left_out=())


def _installed(vendor: str) -> PythonTree:
    """PyMeasure as it is on the path; looked for, and not imported."""
    spec = importlib.machinery.PathFinder.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places or not Path(places[0]).is_dir():
        raise NotFound(
            "PyMeasure is not installed where edged is.",
            remedy="Name its folder with --all, or put it on PYTHONPATH; it is not run.",
        )
    package = Path(places[0])
    found = _tree(package)
    makers = sorted(
        {Path(path).parts[1] for path in found.paths if path.startswith("instruments/")}
    )
    if vendor not in makers:
        raise NotFound(f"PyMeasure has no vendor {vendor}.", remedy=nearest(vendor, makers))
    versions = [one.name.split("-")[1] for one in package.parent.glob(f"{PACKAGE}-*.dist-info")]
    version = versions[0].removesuffix(".dist") if len(versions) == 1 else ""
    paths = tuple(f"{PACKAGE}/{path}" for path in found.paths)
    only = tuple(path for path in paths if path.startswith(f"{PACKAGE}/instruments/{vendor}/"))
    return PythonTree(
        root=package.parent,
        paths=paths,
        only=only,
        left_out=(),
        origin=f"PyMeasure {version}".strip(),
    )


def _taken(config: Config, output: Path | None) -> Collection[str]:
    """The keys of other profiles; of those in the directory that is written none counts."""
    library = read_library(config.profile_dirs, config.state_dir)
    own = None if output is None else output.absolute()
    return [
        key
        for key, profile in library.profiles.items()
        if Path(profile.source_path).absolute().parent != own
    ]


def _write(drafts: Sequence[Draft], output: Path) -> list[str]:
    """Writes what is not there yet; gives the files that are there and say otherwise."""
    kept: list[str] = []
    for draft in drafts:
        place = output / f"{draft.key}.yaml"
        if place.is_symlink() or place.exists():
            if not _says(place, draft.text):
                kept.append(str(place))
            continue
        write_text(place, draft.text)
    return kept


def _says(place: Path, text: str) -> bool:
    try:
        return read_file(place) == text
    except Invalid:
        return False


def _as_json(
    imported: Imported, left_out: Sequence[LeftOut], kept: Sequence[str], output: Path | None
) -> dict[str, Any]:
    return {
        "declared": imported.declared,
        "arrived": imported.arrived,
        "drafts": [
            {
                "profile_key": draft.key,
                "class": draft.class_name,
                "path": draft.path,
                "instrument_class": draft.instrument_class,
                "commands": [asdict(entry) for entry in draft.entries],
                **(
                    {"text": draft.text}
                    if output is None
                    else {"file": str(output / f"{draft.key}.yaml")}
                ),
            }
            for draft in imported.drafts
        ],
        "left_out": [asdict(one) for one in left_out],
        "kept": list(kept),
    }


def _tell(
    imported: Imported, left_out: Sequence[LeftOut], kept: Sequence[str], output: Path | None
) -> None:
    if output is None:
        sys.stdout.write("---\n".join(draft.text for draft in imported.drafts))
    for one in left_out:
        print(f"{one.path}:{one.line}: {one.what}: {one.reason}", file=sys.stderr)
    for place in kept:
        print(f"edged: {place} exists with other content; it was not changed.", file=sys.stderr)
    where = f" in {output}" if output is not None else ""
    share = f", {imported.arrived} of {imported.declared} declarations" if imported.declared else ""
    count = len(imported.drafts)
    drafts = "1 draft" if count == 1 else f"{count} drafts"
    print(f"{drafts}{where}{share}; {len(left_out)} left out", file=sys.stderr)
