"""Checks of the machine: may this user open USB instruments, and is there a VISA to do it with.

Checks of what lies on the disk: configuration, state directory, database.
"""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import shlex
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Final

import psutil

from edged.clock import SystemClock
from edged.doctor.facts import Facts
from edged.doctor.report import CheckLine, fail, passed, skip, warn
from edged.host import may_write
from edged.store.file import MIGRATIONS, DatabaseFile, close
from edged.store.health import is_locked
from edged.store.safety_copy import HEAD

USBTMC: Final = ("fe", "03")
"""Interface class and subclass, as the kernel writes them (USB-TMC 1.0, table 43)."""
SERIAL_NODES: Final = ("ttyUSB*", "ttyACM*")


def check_usb(facts: Facts) -> CheckLine:
    """Whether plugged-in instruments may be opened by this user."""
    if os.name == "nt":
        return skip("Windows asks drivers, not permissions.")
    nodes = _usbtmc_nodes(facts.devices)
    closed = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    serial = [
        str(node)
        for pattern in SERIAL_NODES
        for node in Path("/dev").glob(pattern)
        if not os.access(node, os.R_OK | os.W_OK)
    ]
    if closed:
        return fail(
            f"This user may not open {', '.join(closed)}.",
            'Add a udev rule for instruments (SUBSYSTEM=="usb", '
            'ENV{ID_USB_INTERFACES}=="*:fe03*", MODE="0660", GROUP="edged"), put the user '
            "of the engine into that group, and plug the instrument in again.",
        )
    if serial:
        return warn(
            f"This user may not open {', '.join(serial)}.", "Put it into the group dialout."
        )
    return passed(f"{len(nodes)} USB instruments are plugged in; all may be opened.")


def _usbtmc_nodes(devices: Path) -> list[Path]:
    """Device nodes of what has a USBTMC interface."""
    nodes = []
    for interface in devices.glob("*:*"):
        kind = (_read(interface / "bInterfaceClass"), _read(interface / "bInterfaceSubClass"))
        if kind != USBTMC:
            continue
        device = devices / interface.name.partition(":")[0]
        bus, number = _read(device / "busnum"), _read(device / "devnum")
        if bus.isdigit() and number.isdigit():
            nodes.append(Path(f"/dev/bus/usb/{int(bus):03}/{int(number):03}"))
    return nodes


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def check_visa(facts: Facts) -> CheckLine:
    """Which VISA is used, and what it lacks."""
    library = facts.config.visa_library
    versions = {name: _version(name) for name in ("pyvisa", "pyvisa-py", "pyusb", "pyserial")}
    missing = [name for name, version in versions.items() if not version]
    if missing:
        return fail(f"{', '.join(missing)} is not installed.", "Install edged again.")
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    # As PyVISA reads it: a file, a backend behind an @, or both (`bench.yaml@sim`).
    file, _, backend = library.rpartition("@") if "@" in library else (library, "", "")
    if file and not Path(file).exists():
        return fail(
            f"VISA_LIBRARY {library} does not exist: there is no {file}.",
            "Correct it, or leave it out.",
        )
    if backend == "py" and ctypes.util.find_library("usb-1.0") is None:
        return warn(
            f"{told}; libusb is missing, so USB instruments cannot be used.",
            "Install libusb 1.0 (Debian: libusb-1.0-0).",
        )
    return passed(f"{library}: {told}.")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


DATABASE_FILE: Final = "edged.db"
MEBIBYTE: Final = 1024 * 1024
FAIL_BELOW_MB: Final = 20
WARN_BELOW_MB: Final = 500


def check_config(facts: Facts) -> CheckLine:
    """Whether the configuration can be used, and how much of it is set."""
    if facts.complaint is not None:
        return fail(facts.complaint.message, facts.complaint.remedy)
    origins = {key: origin for key, origin in facts.origins.items() if origin != "default"}
    places = {origin.rpartition(":")[0] or origin for origin in origins.values()}
    told = f"Keys set: {len(origins)}, in {', '.join(sorted(places))}." if origins else ""
    return passed(told or "All keys have their defaults.")


def check_state_dir(facts: Facts) -> CheckLine:
    """Whether it is there, may be written by this user and no other, and has space."""
    path = facts.config.state_dir
    if not path.is_dir():
        if facts.engine is not None:
            return fail(f"{path} is gone.", "Restart the engine, or set STATE_DIR.")
        return passed(f"{path} is not there yet; the engine makes it.")
    for kept in (path, facts.config.data_dir):
        if (open_to := _writable_by_others(kept)) is not None:
            who, place = open_to
            return fail(
                f"{kept} is not safe: {who} can write {place}, and so put other files in the place "
                "of the engine's.",
                f"Take that right away: chmod go-w {shlex.quote(str(place))}",
            )
    free_mb = psutil.disk_usage(str(path)).free // MEBIBYTE
    if free_mb < FAIL_BELOW_MB:
        return fail(f"{path}: {free_mb} MiB are free.", "Free space on this disk.")
    if not may_write(path):
        told = f"{path} cannot be written by this user."
        if facts.is_answering:
            return passed(f"{told} The engine runs as another; {free_mb} MiB are free.")
        return fail(told, "Run as the user of the engine, or set STATE_DIR.")
    if free_mb < WARN_BELOW_MB:
        return warn(f"{path}: only {free_mb} MiB are free.", "Free space on this disk.")
    return passed(f"{path}: may be written, {free_mb} MiB are free.")


if sys.platform == "win32":

    def _writable_by_others(_directory: Path) -> tuple[str, Path] | None:
        """Python cannot read who has which rights here."""
        return None

else:

    def _writable_by_others(directory: Path) -> tuple[str, Path] | None:
        """Who else can change what is found at that path, and where they can."""
        for place in (directory, *directory.parents):
            try:
                status = place.stat()
            except OSError:
                continue
            # In a directory above it, the sticky bit keeps others from what is not theirs.
            if place != directory and status.st_mode & stat.S_ISVTX:
                continue
            if status.st_mode & stat.S_IWOTH:
                return "every user", place
            if status.st_mode & stat.S_IWGRP and (group := _shared_group(status)):
                return f"the group {group}", place
        return None

    def _shared_group(status: os.stat_result) -> str:
        """The name of a group that has other members than the owner; else empty."""
        import grp  # only here, because Windows has neither
        import pwd

        try:
            group = grp.getgrgid(status.st_gid)
        except KeyError:
            return ""
        users = {user.pw_name: user for user in pwd.getpwall()}
        members = {*group.gr_mem, *(n for n, u in users.items() if u.pw_gid == status.st_gid)}
        owner = {name for name, user in users.items() if user.pw_uid == status.st_uid}
        return group.gr_name if members - owner else ""


def check_database(facts: Facts) -> CheckLine:
    """Whether it takes rows; by the engine's word, or by the file when none runs."""
    path = facts.config.state_dir / DATABASE_FILE
    if not facts.is_answering:
        return _closed_database(path)
    store = facts.status.get("store", {})
    if store.get("state") != "healthy":
        return fail(
            f"{path} cannot be written: {store.get('reason')}. Writes to instruments are refused.",
            store.get("remedy", ""),
        )
    if store.get("rows_lost"):
        return warn(
            f"{store['rows_lost']} rows of reads and refusals were only counted.",
            "Look at the disk's speed; the audit log has a row that says how many.",
        )
    if store.get("loss"):
        return warn(
            f"{path} can be written. {store['loss']}",
            "Find out who deletes or cuts files in the state directory; `edged audit verify` tells "
            "what is missing.",
        )
    if store.get("retention_waits"):
        return warn(
            f"{path} can be written. None is removed for its age: {store['retention_waits']}.",
            "Set this machine's clock, or have a time service do it.",
        )
    return passed(f"{path} can be written; rows waiting: {store.get('rows_waiting', 0)}.")


def _closed_database(path: Path) -> CheckLine:
    if not path.exists():
        return skip(f"{path} is not there yet.")
    file = DatabaseFile(path=path, clock=SystemClock(), migrations=MIGRATIONS)
    try:
        connection = file.open_as_far_as_possible()
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (rows,) = connection.execute("SELECT count(*) FROM audit").fetchone()
            (head,) = connection.execute(HEAD).fetchone()
        finally:
            close(connection)
    except sqlite3.Error as error:
        if is_locked(error):
            return skip(f"{path} is in use by a program that could not be asked.")
        return fail(
            f"{path} cannot be read: {error}.",
            "The engine moves a damaged file aside and begins a new one; look at the disk.",
        )
    if verdict != "ok":
        return fail(f"{path} is damaged: {verdict}.", "Look at the disk's health.")
    mark = file.head_mark.read()
    if mark is not None and mark[0] > head:
        return fail(
            f"{path} has lost rows {head + 1} to {mark[0]}.",
            "Find out who deletes or cuts files there. The engine goes on with what there is, and "
            "takes lockouts and unfinished work from their second copy, safety.json.",
        )
    if not file.is_writable():
        return fail(
            f"{path} cannot be written by this user.",
            "Make it and its directory writable for the user that edged runs as.",
        )
    return passed(f"{path} is sound and has {rows} rows (`edged audit verify` walks its chain).")
