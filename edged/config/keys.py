"""Every key of the configuration, once: name, kind, default, meaning.

Parsing, ``edged config``, the documentation page and the tests are made from ``KEYS``. A key's
field in ``Config`` is its name in lower case. Defaults that depend on the machine are functions of
its ``Places``; what stands in the documentation for them is ``default_text``.

Source: docs/promises.md section 2.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from edged.config.instruments import INSTRUMENT, INSTRUMENTS
from edged.config.kinds import (
    FILE,
    HOST_OR_NETWORK,
    NAME,
    NETWORK,
    PLACE,
    TEXT,
    list_of,
    map_of,
    matching,
    matching_each,
    url,
)
from edged.host import host_name
from edged.schema.fields import Fields, complaint
from edged.schema.tables import TRUTH, Key, Kind, choice, integer, is_word, made
from edged.yaml.tree import ListNode, Node


class Bus(enum.StrEnum):
    """What the discovery loop looks at."""

    USB = "usb"
    SERIAL = "serial"
    LAN = "lan"
    GPIB = "gpib"


class Exposure(enum.StrEnum):
    """A proxied listener of the supervisor: the private network's addresses, or all."""

    PRIVATE = "private"
    ANY = "any"


class VisaServer(enum.StrEnum):
    """What the VISA server speaks to programs that know VISA."""

    HISLIP = "hislip"


class ListedTools(enum.StrEnum):
    """Which dynamic tools tools/list shows: each, those marked essential, none."""

    ALL = "all"
    ESSENTIAL = "essential"
    STATIC = "static"


class BenchPage(enum.StrEnum):
    """The page at /bench: none, to look at and to stop, or with forms and holds, too."""

    OFF = "off"
    READ = "read"
    FULL = "full"


class InventoryPlace(enum.StrEnum):
    """Where relay fronts keep what edges said of themselves."""

    MEMORY = "memory"
    JETSTREAM = "jetstream"


class MetricsAccess(enum.StrEnum):
    """Whether /metrics is served on the MCP port."""

    OFF = "off"
    READ = "read"


class SdkTools(enum.StrEnum):
    """Which tools of SDK wrappers are listed: each, or those whose device was seen."""

    ALL = "all"
    CONNECTED = "connected"


class ToolNames(enum.StrEnum):
    """Tool names as promised, with dots turned into ``_``, or with aliases for short ids."""

    SPEC = "spec"
    STRICT = "strict"
    ALIAS = "alias"


class RawScpi(enum.StrEnum):
    """What send_scpi may send: anything, commands of the profile, queries of it, nothing."""

    ALL = "all"
    KNOWN = "known"
    QUERIES = "queries"
    OFF = "off"


class OnExit(enum.StrEnum):
    """Whether the engine aborts what may be on when it ends in an orderly way."""

    LEAVE = "leave"
    SAFE = "safe"


class LogLevel(enum.StrEnum):
    """The least severe event that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """``AUTO``: console on a terminal, JSON lines otherwise."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


PORT: Final = integer(0, 65_535)
URL_PATH: Final = matching_each(
    "URL path",
    (r"/.*", "begin with /"),
    (r"[^?#]*", "have no ? or #"),
    (r"[A-Za-z0-9._~/-]*", "have only letters, digits and . _ ~ - / in it"),
    # Clients resolve such parts, so that they would never reach it.
    (r"(?!.*/(?:/|\.{1,2}(?:/|$))).*", "have no part that is empty, . or .."),
    (r".{1,201}", "have at most 201 characters"),
    (r"(?!/(?:bench|metrics)(?:/|$)).*", "be neither /bench nor /metrics, which have other uses"),
)
HOST: Final = matching(
    "host name", r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", "be a host name without scheme and port"
)
ORIGIN: Final = matching(
    "origin",
    r"[a-z][a-z0-9+.-]*://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?",
    "be an origin like https://example.org, without a path",
)
TOOL_ENTRY: Final = matching(
    "tool", r"[A-Za-z0-9_.-]{1,200}(:[A-Za-z0-9_.-]{1,200})?", "be <tool> or <tool>:<scope>"
)
PRIVATE_NETWORKS: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "fe80::/10",
        "fc00::/7",
    )
)


_ENTRIES: Final = made(list_of(TOOL_ENTRY), frozenset)


def _tools_allowed(
    fields: Fields, key: str, node: Node, names: Collection[str]
) -> frozenset[str] | None:
    if is_word(node, "all"):
        return None
    if not isinstance(node, ListNode) or _ENTRIES.read is None:
        message = f"{fields.name_of(key)} must be the word all or a list of tools."
        raise complaint(node.mark, message, "Write a list like [get_status].")
    allowed: frozenset[str] = _ENTRIES.read(fields, key, node, names)
    return allowed


_NEEDED: Final = ", ".join(key.name for key in INSTRUMENT.required)
_OPTIONAL: Final = ", ".join(name for name, key in INSTRUMENT.keys.items() if not key.is_required)
_MEBIBYTES: Final = integer(1, 1_048_576)

_TABLE: Final = (
    Key(
        name="MCP_ENABLED",
        kind=TRUTH,
        default=True,
        sentence="Whether the MCP endpoint is opened; RPC and instruments work without it.",
    ),
    Key(
        name="MCP_PORT",
        kind=PORT,
        default=8767,
        sentence="TCP port of the MCP endpoint; 0 takes any free one, printed at the start.",
    ),
    Key(
        name="MCP_PATH",
        kind=URL_PATH,
        default="/mcp",
        sentence="URL path of the MCP endpoint; a slash at its end is ignored.",
    ),
    Key(
        name="BENCH_PAGE",
        kind=choice(BenchPage),
        default=BenchPage.READ,
        sentence="The page for people, /bench on the MCP port: off, read (look, stop) or full.",
    ),
    Key(
        name="RESCAN_INTERVAL_SEC",
        kind=integer(1, 86_400),
        default=60,
        sentence="Seconds between two scans of the buses; the LAN is searched in every tenth.",
    ),
    Key(
        name="INBOUND_AUTH_TOKEN",
        kind=TEXT,
        default=None,
        is_secret=True,
        sentence="Bearer token of the RPC interface. MCP never requires it.",
    ),
    Key(
        name="EDGE_ID",
        kind=matching("id", r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "be letters, digits, _ and -"),
        default=None,
        default_text="made once, kept in STATE_DIR",
        sentence="Identity of this edge in tokens and on the relay.",
    ),
    Key(
        name="EDGE_NAME",
        kind=NAME,
        default=lambda _places: host_name(),
        default_text="the host name",
        sentence="Name of this edge for people.",
    ),
    Key(
        name="RPC_PORT",
        kind=PORT,
        default=8766,
        sentence="TCP port of the RPC interface, on loopback; 0 takes any free one.",
    ),
    Key(
        name="STATE_DIR",
        kind=PLACE,
        default=lambda places: places.state_dir,
        default_text="/var/lib/edged ¹",
        sentence="Database, identity, and the ports in use (engine.json).",
    ),
    Key(
        name="DATA_DIR",
        kind=PLACE,
        default=lambda places: places.data_dir,
        default_text="STATE_DIR/data if that is set, else /var/lib/edged/data ¹",
        sentence="Recorded data of sweeps, streams and tables; edged deletes none of it.",
    ),
    Key(
        name="PROFILE_DIRS",
        kind=list_of(PLACE),
        default=lambda places: places.profile_dirs,
        default_text="[/usr/share/edged/profiles, /etc/edged/profiles] ¹",
        sentence="Directories of instrument profiles; a later one overrides an earlier one.",
    ),
    Key(
        name="EXPERIMENT_DIRS",
        kind=list_of(PLACE),
        default=lambda places: places.experiment_dirs,
        default_text="[/etc/edged/experiments, …, STATE_DIR/experiments] ¹",
        sentence="Directories of experiment files; a later one overrides an earlier one.",
    ),
    Key(
        name="SDK_WRAPPER_DIRS",
        kind=list_of(PLACE),
        default=lambda places: places.sdk_wrapper_dirs,
        default_text="[/usr/share/edged/sdk_wrappers, /etc/edged/sdk_wrappers] ¹",
        sentence="Directories of SDK wrappers; a later one overrides an earlier one.",
    ),
    Key(
        name="SDK_LIBRARIES",
        kind=map_of(FILE),
        default=MappingProxyType({}),
        sentence="Paths of vendor libraries, by the name that the wrapper uses.",
    ),
    Key(
        name="SDK_SETTINGS",
        kind=map_of(map_of(TEXT)),
        default=MappingProxyType({}),
        sentence="Settings of wrappers, such as a serial port: wrapper → name → text.",
    ),
    Key(
        name="SDK_TOOLS",
        kind=choice(SdkTools),
        default=SdkTools.ALL,
        sentence="Which tools of SDK wrappers are listed. all: each, from the start; connected: "
        "those whose device was seen (docs/sdk-wrappers.md).",
    ),
    Key(
        name="SDK_ENVIRONMENT",
        kind=list_of(TEXT),
        default=(),
        sentence="Names of environment variables of the engine that wrappers get besides PATH, "
        "HOME and the like, such as GENICAM_GENTL64_PATH (docs/sdk-wrappers.md).",
    ),
    Key(
        name="SDK_MEMORY_MB",
        kind=integer(64, 1_048_576),
        default=1024,
        sentence="Memory that the worker process of each wrapper may have.",
    ),
    Key(
        name="BENCH_FILE",
        kind=FILE,
        default=lambda places: places.bench_file,
        default_text="/etc/edged/bench.yaml ¹",
        sentence="File with the owner's limits, aliases and denied commands for single units.",
    ),
    Key(
        name="INSTRUMENTS",
        kind=INSTRUMENTS,
        default=(),
        sentence=f"Instruments with a fixed address: {_NEEDED}, and optionally {_OPTIONAL}. Each "
        "entry is an instrument of its own; entries with the same name are addresses of one "
        "(docs/instruments.md).",
    ),
    Key(
        name="DISCOVERY",
        kind=list_of(choice(Bus)),
        default=(Bus.USB, Bus.SERIAL, Bus.LAN),
        sentence="Buses that are searched; with --sim none, unless this key is set.",
    ),
    Key(
        name="SERIAL_PORTS",
        kind=list_of(TEXT),
        default=(),
        sentence="Serial ports to which *IDN? may be sent although their USB id is unknown.",
    ),
    Key(
        name="VISA_LIBRARY",
        kind=TEXT,
        default="@py",
        sentence="VISA backend: @py for pyvisa-py, or the path of a system VISA.",
    ),
    Key(
        name="EXPOSE",
        kind=list_of(choice(Exposure)),
        default=(Exposure.PRIVATE, Exposure.ANY),
        sentence="Listeners that the supervisor opens: on private addresses, on 0.0.0.0.",
    ),
    Key(
        name="VISA_SERVER",
        kind=list_of(choice(VisaServer)),
        default=(),
        sentence="Protocols for programs that use VISA.",
    ),
    Key(
        name="HISLIP_PORT",
        kind=PORT,
        default=4880,
        sentence="TCP port of the HiSLIP server, on loopback; 0 takes any free one.",
    ),
    Key(
        name="EXPOSE_VISA",
        kind=TRUTH,
        default=False,
        sentence="Whether the supervisor also opens the HiSLIP port, on the addresses of EXPOSE.",
    ),
    Key(
        name="ALLOWED_NETWORKS",
        kind=list_of(NETWORK),
        default=PRIVATE_NETWORKS,
        sentence="Source addresses that the supervisor's proxy accepts.",
    ),
    Key(
        name="ALLOWED_HOSTS",
        kind=list_of(HOST),
        default=(),
        sentence="More names by which clients may address the MCP endpoint (Host header).",
    ),
    Key(
        name="ALLOWED_ORIGINS",
        kind=list_of(ORIGIN),
        default=(),
        sentence="Web origins, besides the endpoint's own, whose pages may call the MCP endpoint.",
    ),
    Key(
        name="DIRECT_TOOLS_ALLOW",
        kind=Kind("`all` or list of tool, tool:scope", _ENTRIES.schema, _tools_allowed),
        default=None,
        default_text="all",
        sentence="Tools that callers without a token may use.",
    ),
    Key(
        name="DIRECT_DANGER_ALLOW",
        kind=TRUTH,
        default=True,
        sentence="Whether callers without a token may make dangerous calls.",
    ),
    Key(
        name="TOOLS",
        kind=choice(ListedTools),
        default=ListedTools.ALL,
        sentence="Dynamic tools in tools/list: all, only essential ones, or none (static).",
    ),
    Key(
        name="TOOL_NAMES",
        kind=choice(ToolNames),
        default=ToolNames.SPEC,
        sentence="strict turns dots in tool names into _ (calls accept both spellings); alias puts "
        "a unit's alias in place of its short id. Names over 52 characters are always shortened.",
    ),
    Key(
        name="RAW_SCPI",
        kind=choice(RawScpi),
        default=RawScpi.ALL,
        sentence="Which raw lines may be sent. all: any line, and no limit of the profile is "
        "checked for send_scpi; known: only commands of the profile, within its limits; queries: "
        "only queries of the profile; off: none. With each value *IDN? and a few others are "
        "allowed, and the owner's bench file always holds (docs/raw-scpi.md).",
    ),
    Key(
        name="RELAY_URL",
        kind=url("https", insecure="http"),
        default=None,
        sentence="Public address of the relay front, without its path.",
    ),
    Key(
        name="RELAY_NATS_URL",
        kind=url("tls", "nats", "wss", insecure="ws"),
        default=None,
        sentence="NATS server over which this edge is reached.",
    ),
    Key(
        name="RELAY_CREDENTIALS",
        kind=FILE,
        default=None,
        sentence="File with `user:password`, an nkey seed, or a NATS `.creds` file.",
    ),
    Key(
        name="RELAY_CA_FILE",
        kind=FILE,
        default=None,
        sentence="Certificate authority of the NATS server.",
    ),
    Key(
        name="RELAY_ISSUER",
        kind=TEXT,
        default=None,
        sentence="Issuer (iss) of the tokens that are accepted on the relay route.",
    ),
    Key(
        name="RELAY_JWKS_URL",
        kind=url("https", insecure="http"),
        default=None,
        sentence="Where the issuer's public keys are.",
    ),
    Key(
        name="RELAY_FLEET",
        kind=TRUTH,
        default=False,
        sentence="Tokens for many edges (aud: fleet) that list this one are accepted over NATS.",
    ),
    Key(
        name="FLEET_ALL",
        kind=TRUTH,
        default=False,
        sentence="A relay front accepts fleet tokens for every edge (edges_allow: ['*']).",
    ),
    Key(
        name="FLEET_HOSTS",
        kind=map_of(HOST_OR_NETWORK),
        default=MappingProxyType({}),
        sentence="Of a relay front: edge id, or '*', to the host at which the front says that the "
        "page and the metrics of this edge are, such as {edge-1: 10.20.3.4}; a network accepts "
        "each address in it. An edge without an entry has neither (docs/fleet.md).",
    ),
    Key(
        name="RELAY_INVENTORY",
        kind=choice(InventoryPlace),
        default=InventoryPlace.MEMORY,
        sentence="Where relay fronts keep the edges: memory, or NATS JetStream, which keeps "
        "them while no front runs.",
    ),
    Key(
        name="METRICS",
        kind=choice(MetricsAccess),
        default=MetricsAccess.READ,
        sentence="/metrics on the MCP port, for Prometheus, with the endpoint's protection.",
    ),
    Key(
        name="SESSION_IDLE_SEC",
        kind=integer(1, 604_800),
        default=1800,
        sentence="Seconds after which an idle MCP session ends; never under a running call.",
    ),
    Key(
        name="MAX_SESSIONS",
        kind=integer(1, 1_000_000),
        default=10_000,
        sentence="Maximum number of MCP sessions. One caller (an address, or over the relay a "
        "subject) has at most a tenth of them, and at least 10; a new session ends one of the "
        "caller with the most that nobody uses.",
    ),
    Key(
        name="WAVEFORM_MEMORY_MB",
        kind=_MEBIBYTES,
        default=256,
        sentence="Memory for captured waveforms and large pictures; the oldest are removed.",
    ),
    Key(
        name="MAX_BLOCK_MB",
        kind=integer(1, 1024),
        default=64,
        sentence="Largest waveform or picture that is read from an instrument at once, in MiB.",
    ),
    Key(
        name="AUDIT_RETENTION_DAYS",
        kind=integer(1, 36_500),
        default=365,
        sentence="How long rows of the audit log are kept.",
    ),
    Key(
        name="DATA_BUDGET_MB",
        kind=_MEBIBYTES,
        default=10_240,
        sentence="Size of DATA_DIR above which new recordings are refused.",
    ),
    Key(
        name="HEARTBEAT_SEC",
        kind=integer(0, 86_400),
        default=60,
        sentence="Seconds after which an idle LAN or serial instrument is asked its probe, so that "
        "one that does not answer is known; 0: never.",
    ),
    Key(
        name="LEASE_MAX_SEC",
        kind=integer(0, 604_800),
        default=43_200,
        sentence="Seconds after its grant that a lease of instruments lasts at most, however often "
        "it is renewed; 0: none are given.",
    ),
    Key(
        name="GONE_AFTER_SEC",
        kind=integer(1, 86_400),
        default=10,
        sentence="Seconds of silence after which a LAN or configured instrument counts as gone.",
    ),
    Key(
        name="ABORT_AFTER_CRASH_SEC",
        kind=integer(0, 86_400),
        default=120,
        sentence="How old a crashed sweep's journal may be for its abort to be sent unasked.",
    ),
    Key(
        name="ON_EXIT",
        kind=choice(OnExit),
        default=OnExit.LEAVE,
        sentence="What happens to outputs that may be on when the engine is stopped or restarted: "
        "leave them on and name them, or safe: send the abort of each of those instruments. Sweeps "
        "are aborted in both cases, and sequences run their finally steps (docs/sweeps.md).",
    ),
    Key(
        name="LOG_LEVEL",
        kind=choice(LogLevel),
        default=LogLevel.INFO,
        sentence="The least severe events that are logged.",
    ),
    Key(
        name="LOG_FORMAT",
        kind=choice(LogFormat),
        default=LogFormat.AUTO,
        sentence="auto: console on a terminal, JSON lines otherwise.",
    ),
)

KEYS: Final[Mapping[str, Key]] = MappingProxyType({key.name: key for key in _TABLE})

RENAMED: Final[Mapping[str, str]] = MappingProxyType({})
"""Former name → today's, for every key that a release has renamed: the former one is understood
still, with a warning. None has been yet."""
