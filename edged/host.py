r"""What this machine is: its platform, its name, and where edged keeps things on it.

Linux, as root or as the packaged service (whoever may write ``/var/lib/edged``): the places of the
file system standard. Linux, as an ordinary user: the XDG places, so that a first try needs no root;
configuration falls back to ``/etc/edged`` where the user has none of their own. Windows:
``%PROGRAMDATA%\edged``. macOS and everything else: a refusal, because nobody tests edged there.

The functions take what they look at (platform name, environment, file tests) as arguments, so every
platform's answer can be computed on any other.
"""

from __future__ import annotations

import enum
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edged.errors import ErrorCode, Invalid
from edged.files import read_bytes, read_text, write_atomically
from edged.record import record

ENVIRONMENT_PREFIX: Final = "EDGED_"
"""Of the variables that set keys of the configuration."""
LEASE_VARIABLE: Final = "EDGED_LEASE"
"""What a caller presents; no key of the configuration."""
EDGE_ID_FILE: Final = "edge_id"
RESOLVER_WITHIN_S: Final = 0.3
TIME_ERROR: Final = 5
"""adjtimex(2): nobody keeps this machine's clock right."""
SYSTEM_CONFIG: Final = Path("/etc/edged")
SYSTEM_STATE: Final = Path("/var/lib/edged")
SYSTEM_SHARE: Final = Path("/usr/share/edged")


class ExitStatus(enum.IntEnum):
    """What the programs of edged end with; the numbers from 64 up are those of sysexits.h.

    STOPPED and ERROR are how the run of an experiment ended, which has a verdict besides.
    """

    OK = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    ERROR = 4
    UNAVAILABLE = 69
    RESTART = 75
    CONFIG = 78
    INTERRUPTED = 130


class Platform(enum.StrEnum):
    """The platforms edged runs on."""

    LINUX = "linux"
    WINDOWS = "win32"


@record
class Places:
    """Where things are looked for and kept unless the configuration says otherwise.

    Attributes:
        config_file: drop-ins lie beside it, in a directory of its name with ``.d`` added.
        profile_dirs, sdk_wrapper_dirs: the shipped one, then the owner's; later ones override.
        own_profile_dir: where the owner's profiles belong, which need not be there yet.
        experiment_dirs: the owner's, then one's own, then those that were saved.
        state_dirs: where a running engine may have left its ``engine.json``: one's own first.
    """

    config_file: Path
    bench_file: Path
    state_dir: Path
    data_dir: Path
    profile_dirs: tuple[Path, ...]
    own_profile_dir: Path
    sdk_wrapper_dirs: tuple[Path, ...]
    state_dirs: tuple[Path, ...]
    experiment_dirs: tuple[Path, ...] = ()


def find_platform(name: str = sys.platform) -> Platform:
    """The platform of that ``sys.platform``.

    Raises:
        Invalid: UNSUPPORTED_PLATFORM; a program ends with ``ExitStatus.UNAVAILABLE`` then.
    """
    for platform in Platform:
        if name == platform.value:
            return platform
    spoken = "macOS" if name == "darwin" else name
    raise Invalid(
        f"edged does not run on {spoken}.",
        code=ErrorCode.UNSUPPORTED_PLATFORM,
        data={"platform": name},
        remedy="Run it on Linux (a Raspberry Pi will do) or Windows, beside the bench, and point "
        "your client at that machine.",
    )


def may_write(directory: Path) -> bool:
    """True if this user may make files in ``directory``, or make it."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    return os.access(directory, os.W_OK)


def find_places(
    *,
    platform: Platform,
    environ: Mapping[str, str],
    home: Path,
    shipped: Path | None,
    is_writable: Callable[[Path], bool] = may_write,
) -> Places:
    """The places of this machine and user.

    Args:
        home: the user's home directory, used where XDG variables are unset.
        shipped: what holds the shipped profiles and wrappers; ``None``: the system's share.
        is_writable: whether this user may make files in a directory.
    """
    if platform is Platform.WINDOWS:
        return _windows_places(environ, shipped)
    if is_writable(SYSTEM_STATE):
        return _linux_places(SYSTEM_CONFIG, SYSTEM_STATE, SYSTEM_STATE / "data", shipped)
    config = _xdg(environ, "XDG_CONFIG_HOME", home / ".config") / "edged"
    state = _xdg(environ, "XDG_STATE_HOME", home / ".local" / "state") / "edged"
    data = _xdg(environ, "XDG_DATA_HOME", home / ".local" / "share") / "edged"
    return _linux_places(config, state, data, shipped)


def places_here() -> Places:
    """The places of the machine, user and source tree that this process runs on, links and all.

    Raises:
        Invalid: UNSUPPORTED_PLATFORM.
    """
    return find_places(
        platform=find_platform(sys.platform),
        environ=os.environ,
        home=Path(os.path.expanduser("~")),  # noqa: PTH111 (Path.home() raises without a home)
        shipped=find_shipped(),
    )


def find_shipped(package: Path = Path(__file__), prefix: Path = Path(sys.prefix)) -> Path | None:
    """What holds the profiles and wrappers that came with this package.

    The source tree that it lies in, or the share of the environment that a wheel was installed
    into; ``None`` where there is neither, as in a system's own Python.
    """
    root, share = package.resolve().parent.parent, prefix / "share" / "edged"
    if (root / "setup.cfg").is_file() and (root / "profiles").is_dir():
        return root
    return share if (share / "profiles").is_dir() else None


def host_name() -> str:
    """This machine's bare host name."""
    return socket.gethostname().split(".")[0] or "localhost"


def qualified_host_name() -> str:
    """This machine's name with its domain, or empty where it has none or the resolver is slow.

    A resolver without network may take half a minute; a daemon's start does not wait for it.
    """
    import threading  # for daemons

    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(socket.getfqdn()), daemon=True)
    asking.start()
    asking.join(RESOLVER_WITHIN_S)
    return found[0] if found and "." in found[0] else ""


def keep_edge_id(state_dir: Path, configured: str) -> str:
    """The identity of this edge: the configured one, else the kept one, else a new one, kept.

    Raises:
        OSError: the state directory can be neither read nor written.
    """
    if configured:
        return configured
    path = state_dir / EDGE_ID_FILE
    try:
        kept = read_text(path, errors="replace").strip()
    except FileNotFoundError:
        kept = ""
    if kept.isascii() and kept.replace("-", "").isalnum() and len(kept) <= 64:
        return kept
    made = f"edge-{os.urandom(6).hex()}"
    write_atomically(path, f"{made}\n")
    return made


def port_holder(port: int, *, besides: Collection[int] = ()) -> str:
    """Who listens on a TCP port of this machine, as ``name (PID n)``.

    Empty where it cannot be seen: only an administrator sees the programs of other users.

    Args:
        besides: processes that are not meant.
    """
    import psutil  # here, because most programs of edged never ask

    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status != psutil.CONN_LISTEN or not connection.laddr:
                continue
            if connection.laddr.port == port and connection.pid not in (None, *besides):
                return f"{psutil.Process(connection.pid).name()} (PID {connection.pid})"
    except (psutil.Error, OSError):
        return ""
    return ""


def program_at(port: int) -> str:
    """Whose a connection over loopback is that comes from that port, as ``PID n python3 run.py``.

    Empty where it cannot be seen: only an administrator sees the programs of other users. Blocks.
    """
    import psutil  # here, because most programs of edged never ask

    try:
        for connection in psutil.net_connections(kind="tcp4"):
            if not connection.laddr or connection.laddr.port != port or not connection.pid:
                continue
            if connection.status != psutil.CONN_ESTABLISHED or not connection.raddr:
                continue
            if connection.laddr.ip == LOOPBACK == connection.raddr.ip:
                program = psutil.Process(connection.pid)
                words = [Path(word).name for word in program.cmdline()[1:] if word[:1] != "-"]
                return " ".join([f"PID {connection.pid}", program.name(), *words[:1]])
    except (psutil.Error, OSError):
        return ""
    return ""


def resident_bytes(pid: int) -> int | None:
    """What a process has in memory; ``None`` where that cannot be seen, as when it is gone."""
    if sys.platform == "win32":
        import psutil  # here, because only Windows needs it for that

        try:
            return int(psutil.Process(pid).memory_info().rss)
        except (psutil.Error, OSError):
            return None
    else:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        except (OSError, ValueError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")


def kept_copy(state_dir: Path, path: Path) -> Path:
    """Where the last good state of a file of the owner's is kept: each path has its own copy."""
    import hashlib  # with OpenSSL; hardly a verb needs it

    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    return state_dir / f"{path.stem}-{digest}{path.suffix}"


def _xdg(environ: Mapping[str, str], name: str, fallback: Path) -> Path:
    # The XDG specification has relative paths ignored.
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else fallback


def _linux_places(config: Path, state: Path, data: Path, shipped: Path | None) -> Places:
    own_first = tuple(dict.fromkeys((config, SYSTEM_CONFIG)))
    share = SYSTEM_SHARE if shipped is None else shipped
    owners = tuple(reversed(own_first))
    return Places(
        config_file=_first_present(tuple(place / "edged.yaml" for place in own_first)),
        bench_file=_first_present(tuple(place / "bench.yaml" for place in own_first), state),
        state_dir=state,
        data_dir=data,
        profile_dirs=_present(share / "profiles", *(place / "profiles" for place in owners)),
        own_profile_dir=config / "profiles",
        sdk_wrapper_dirs=_present(
            share / "sdk_wrappers", *(place / "sdk_wrappers" for place in owners)
        ),
        state_dirs=tuple(dict.fromkeys((state, SYSTEM_STATE))),
        experiment_dirs=tuple(place / "experiments" for place in (*owners, state)),
    )


def _windows_places(environ: Mapping[str, str], shipped: Path | None) -> Places:
    root = Path(environ.get("PROGRAMDATA", r"C:\ProgramData")) / "edged"
    share = shipped or Path(sys.prefix) / "share" / "edged"
    return Places(
        config_file=root / "edged.yaml",
        bench_file=root / "bench.yaml",
        state_dir=root / "state",
        data_dir=root / "data",
        profile_dirs=_present(share / "profiles", root / "profiles"),
        own_profile_dir=root / "profiles",
        sdk_wrapper_dirs=_present(share / "sdk_wrappers", root / "sdk_wrappers"),
        state_dirs=(root / "state",),
        experiment_dirs=(root / "experiments", root / "state" / "experiments"),
    )


def _first_present(paths: tuple[Path, ...], state_dir: Path | None = None) -> Path:
    for path in paths:
        # A configuration may consist of drop-ins alone.
        if path.exists() or path.with_name(f"{path.name}.d").is_dir():
            return path
        # One that was there and is gone still counts: else another file would take its place.
        if state_dir is not None and _has_kept_copy(state_dir, path):
            return path
    return paths[0]


def _has_kept_copy(state_dir: Path, path: Path) -> bool:
    # Where no file has a copy there is no need to know what this one's would be called.
    has_any = any(state_dir.glob(f"{path.stem}-*{path.suffix}"))
    return has_any and os.path.lexists(kept_copy(state_dir, path))


def _present(first: Path, *others: Path) -> tuple[Path, ...]:
    # The shipped directory stays even when it is missing, so that its loss is noticed.
    return (first, *(path for path in others if path.is_dir()))


# The addresses of this machine: which are listened on, and which one to name to others.

LOOPBACK: Final = "127.0.0.1"
WILDCARD: Final = "0.0.0.0"  # noqa: S104 - what EXPOSE: any means
PRIVATE: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
    )
)


def is_private(address: str) -> bool:
    """Whether an address belongs to a private network (RFC 1918, 6598, 3927, 4193)."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return any(ip.version == network.version and ip in network for network in PRIVATE)


def machine_addresses() -> tuple[str, ...]:
    """The addresses that this machine has now; link-local ones of IPv6 with their zone."""
    import psutil  # here, because `edged expose` and tests load this module without it

    return tuple(
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in {socket.AF_INET, socket.AF_INET6}
    )


def address_of(bound: Sequence[str], addresses: Sequence[str]) -> str:
    """The address to name: a private one that is listened on, of IPv4 first; else loopback.

    Args:
        bound: where the supervisor listens.
        addresses: those of this machine.
    """
    open_ones = [a for a in addresses if a in bound or (WILDCARD in bound and ":" not in a)]
    # Link-local addresses of IPv6 end in a zone, which means nothing elsewhere.
    private = [a for a in open_ones if is_private(a) and "%" not in a]
    return min(private, key=lambda address: ":" in address, default=LOOPBACK)


def reached_at(bound: Sequence[str]) -> str:
    """The address by which this machine is reached where these are listened on."""
    return address_of(bound, machine_addresses()) if bound else LOOPBACK


def netloc_of(host: str, port: int) -> str:
    """Host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether an address never leaves this machine."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


SUPERVISOR_FILE: Final = "supervisor.json"
MAX_PID: Final = 2**31 - 1


def read_supervisor_file(state_dir: Path) -> dict[str, Any]:
    """The file; empty while no supervisor works with this state directory. Blocks."""
    try:
        facts = json.loads(read_bytes(state_dir / SUPERVISOR_FILE))
        pid = int(facts["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    import psutil  # here: most readers find no file

    # One that was killed leaves its file behind.
    return facts if 0 < pid <= MAX_PID and psutil.pid_exists(pid) else {}


def clock_state() -> dict[str, Any]:
    """{is_synchronized, source}: whether this machine's clock is kept right, as it says itself.

    ``is_synchronized`` is ``None`` where the machine does not tell.
    """
    unknown = {"is_synchronized": None, "source": "unknown"}
    if sys.platform == "win32":
        return unknown
    else:  # noqa: RET505 - mypy takes what follows a platform's return for unreachable
        import ctypes

        try:
            # struct timex is 208 bytes on every Linux that Python runs on; modes 0 changes nothing.
            state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
        except (OSError, AttributeError):
            return unknown
        if state < 0:
            return unknown
        return {"is_synchronized": state != TIME_ERROR, "source": "adjtimex"}
