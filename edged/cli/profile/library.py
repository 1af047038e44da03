"""Which profiles a verb of ``edged profile`` is about: keys, files or directories, with the others.

Lint looks for clashes, and a family stands in another file, so the profiles of PROFILE_DIRS are
always read besides what is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edged.config.load import Config
from edged.errors import ErrorCode, Invalid, NotFound
from edged.profiles.library import Complaint, ProfileLibrary
from edged.profiles.library_cache import read_library
from edged.profiles.loading import complaints_of, load_library, load_profile
from edged.profiles.model import Profile
from edged.record import record
from edged.schema.fields import nearest


@record
class Chosen:
    """The profiles that were named, what is wrong with the others, and all that there are."""

    profiles: tuple[Profile, ...]
    complaints: tuple[Complaint, ...]
    library: ProfileLibrary


def choose(words: Sequence[str], config: Config) -> Chosen:
    """What the words name; everything in PROFILE_DIRS where there are none.

    Raises:
        NotFound: a word that is no file, no directory and no key.
    """
    library = read_library(config.profile_dirs, config.state_dir)
    if not words:
        return Chosen(
            profiles=tuple(library.profiles.values()),
            complaints=library.complaints,
            library=library,
        )
    profiles: dict[str, Profile] = {}
    complaints: list[Complaint] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            found = load_library([path])
            profiles.update(found.profiles)
            complaints += found.complaints
        elif path.suffix in (".yaml", ".yml") or path.exists():
            _add_file(path, profiles, complaints)
        else:
            _add_key(word, library, profiles, complaints)
    everything = {**library.profiles, **profiles}
    return Chosen(
        profiles=tuple(profiles.values()),
        complaints=tuple(complaints),
        library=ProfileLibrary(profiles=everything, complaints=library.complaints),
    )


def find_one(word: str, config: Config) -> tuple[Profile, tuple[Path, ...]]:
    """One profile by key or file, and the directories from which an engine would take it.

    Raises:
        NotFound, Invalid: it is not there, or cannot be loaded.
    """
    path = Path(word)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return load_profile(path), (*config.profile_dirs, path.resolve().parent)
    library = read_library(config.profile_dirs, config.state_dir)
    profiles: dict[str, Profile] = {}
    complaints: list[Complaint] = []
    _add_key(word, library, profiles, complaints)
    if complaints:
        told = "\n".join(dict.fromkeys(complaint.sentence for complaint in complaints))
        raise Invalid(told, code=ErrorCode.BAD_PROFILE)
    return profiles[word], config.profile_dirs


def _add_file(path: Path, profiles: dict[str, Profile], complaints: list[Complaint]) -> None:
    try:
        profile = load_profile(path)
    except Invalid as error:
        complaints += complaints_of(error, path)
    else:
        profiles[profile.key] = profile


def _add_key(
    word: str,
    library: ProfileLibrary,
    profiles: dict[str, Profile],
    complaints: list[Complaint],
) -> None:
    broken = [c for c in library.complaints if Path(c.path).stem == word]
    if word in library.profiles:
        profiles[word] = library.profiles[word]
        return
    if broken:
        complaints += broken
        return
    raise NotFound(
        f"There is no profile {word!r} in PROFILE_DIRS, and no such file.",
        code=ErrorCode.BAD_PROFILE,
        remedy=f"{nearest(word, library.profiles)} `edged config` shows PROFILE_DIRS.".strip(),
    )
