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
    Key("MCP_ENABLED", TRUTH,
        "Whether the MCP endpoint is opened; RPC and instruments work without it.", default=True),
    Key("MCP_PORT", PORT,
        "TCP port of the MCP endpoint; 0 takes any free one, printed at the start.", default=8767),
    Key("MCP_PATH", URL_PATH,
        "URL path of the MCP endpoint; a slash at its end is ignored.", default="/mcp"),
    Key("BENCH_PAGE", choice(BenchPage),
        "The page for people, /bench on the MCP port: off, read (look, stop) or full.",
        default=BenchPage.READ),
    Key("RESCAN_INTERVAL_SEC", integer(1, 86_400),
        "Seconds between two scans of the buses; the LAN is searched in every tenth.", default=60),
    Key("INBOUND_AUTH_TOKEN", TEXT,
        "Bearer token of the RPC interface. MCP never requires it.", is_secret=True),
    Key("EDGE_ID", matching("id", r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "be letters, digits, _ and -"),
        "Identity of this edge in tokens and on the relay.",
        default_text="made once, kept in STATE_DIR"),
    Key("EDGE_NAME", NAME,
        "Name of this edge for people.",
        default=lambda _places: host_name(), default_text="the host name"),
    Key("RPC_PORT", PORT,
        "TCP port of the RPC interface, on loopback; 0 takes any free one.", default=8766),
    Key("STATE_DIR", PLACE,
        "Database, identity, and the ports in use (engine.json).",
        default=lambda places: places.state_dir, default_text="/var/lib/edged ¹"),
    Key("DATA_DIR", PLACE,
        "Recorded data of sweeps, streams and tables; edged deletes none of it.",
        default=lambda places: places.data_dir,
        default_text="STATE_DIR/data if that is set, else /var/lib/edged/data ¹"),
    Key("PROFILE_DIRS", list_of(PLACE),
        "Directories of instrument profiles; a later one overrides an earlier one.",
        default=lambda places: places.profile_dirs,
        default_text="[/usr/share/edged/profiles, /etc/edged/profiles] ¹"),
    Key("EXPERIMENT_DIRS", list_of(PLACE),
        "Directories of experiment files; a later one overrides an earlier one.",
        default=lambda places: places.experiment_dirs,
        default_text="[/etc/edged/experiments, …, STATE_DIR/experiments] ¹"),
    Key("SDK_WRAPPER_DIRS", list_of(PLACE),
        "Directories of SDK wrappers; a later one overrides an earlier one.",
        default=lambda places: places.sdk_wrapper_dirs,
        default_text="[/usr/share/edged/sdk_wrappers, /etc/edged/sdk_wrappers] ¹"),
    Key("SDK_LIBRARIES", map_of(FILE),
        "Paths of vendor libraries, by the name that the wrapper uses.",
        default=MappingProxyType({})),
    Key("SDK_SETTINGS", map_of(map_of(TEXT)),
        "Settings of wrappers, such as a serial port: wrapper → name → text.",
        default=MappingProxyType({})),
    Key("SDK_TOOLS", choice(SdkTools),
        "Which tools of SDK wrappers are listed. all: each, from the start; connected: "
        "those whose device was seen (docs/sdk-wrappers.md).", default=SdkTools.ALL),
    Key("SDK_ENVIRONMENT", list_of(TEXT),
        "Names of environment variables of the engine that wrappers get besides PATH, "
        "HOME and the like, such as GENICAM_GENTL64_PATH (docs/sdk-wrappers.md).", default=()),
    Key("SDK_MEMORY_MB", integer(64, 1_048_576),
        "Memory that the worker process of each wrapper may have.", default=1024),
    Key("BENCH_FILE", FILE,
        "File with the owner's limits, aliases and denied commands for single units.",
        default=lambda places: places.bench_file, default_text="/etc/edged/bench.yaml ¹"),
    Key("INSTRUMENTS", INSTRUMENTS,
        f"Instruments with a fixed address: {_NEEDED}, and optionally {_OPTIONAL}. Each "
        "entry is an instrument of its own; entries with the same name are addresses of one "
        "(docs/instruments.md).", default=()),
    Key("DISCOVERY", list_of(choice(Bus)),
        "Buses that are searched; with --sim none, unless this key is set.",
        default=(Bus.USB, Bus.SERIAL, Bus.LAN)),
    Key("SERIAL_PORTS", list_of(TEXT),
        "Serial ports to which *IDN? may be sent although their USB id is unknown.", default=()),
    Key("VISA_LIBRARY", TEXT,
        "VISA backend: @py for pyvisa-py, or the path of a system VISA.", default="@py"),
    Key("EXPOSE", list_of(choice(Exposure)),
        "Listeners that the supervisor opens: on private addresses, on 0.0.0.0.",
        default=(Exposure.PRIVATE, Exposure.ANY)),
    Key("VISA_SERVER", list_of(choice(VisaServer)),
        "Protocols for programs that use VISA.", default=()),
    Key("HISLIP_PORT", PORT,
        "TCP port of the HiSLIP server, on loopback; 0 takes any free one.", default=4880),
    Key("EXPOSE_VISA", TRUTH,
        "Whether the supervisor also opens the HiSLIP port, on the addresses of EXPOSE.",
        default=False),
    Key("ALLOWED_NETWORKS", list_of(NETWORK),
        "Source addresses that the supervisor's proxy accepts.", default=PRIVATE_NETWORKS),
    Key("ALLOWED_HOSTS", list_of(HOST),
        "More names by which clients may address the MCP endpoint (Host header).", default=()),
    Key("ALLOWED_ORIGINS", list_of(ORIGIN),
        "Web origins, besides the endpoint's own, whose pages may call the MCP endpoint.",
        default=()),
    Key("DIRECT_TOOLS_ALLOW",
        Kind("`all` or list of tool, tool:scope", _ENTRIES.schema, _tools_allowed),
        "Tools that callers without a token may use.", default_text="all"),
    Key("DIRECT_DANGER_ALLOW", TRUTH,
        "Whether callers without a token may make dangerous calls.", default=True),
    Key("TOOLS", choice(ListedTools),
        "Dynamic tools in tools/list: all, only essential ones, or none (static).",
        default=ListedTools.ALL),
    Key("TOOL_NAMES", choice(ToolNames),
        "strict turns dots in tool names into _ (calls accept both spellings); alias puts "
        "a unit's alias in place of its short id. Names over 52 characters are always shortened.",
        default=ToolNames.SPEC),
    Key("RAW_SCPI", choice(RawScpi),
        "Which raw lines may be sent. all: any line, and no limit of the profile is "
        "checked for send_scpi; known: only commands of the profile, within its limits; queries: "
        "only queries of the profile; off: none. With each value *IDN? and a few others are "
        "allowed, and the owner's bench file always holds (docs/raw-scpi.md).",
        default=RawScpi.ALL),
    Key("RELAY_URL", url("https", insecure="http"),
        "Public address of the relay front, without its path."),
    Key("RELAY_NATS_URL", url("tls", "nats", "wss", insecure="ws"),
        "NATS server over which this edge is reached."),
    Key("RELAY_CREDENTIALS", FILE,
        "File with `user:password`, an nkey seed, or a NATS `.creds` file."),
    Key("RELAY_CA_FILE", FILE, "Certificate authority of the NATS server."),
    Key("RELAY_ISSUER", TEXT,
        "Issuer (iss) of the tokens that are accepted on the relay route."),
    Key("RELAY_JWKS_URL", url("https", insecure="http"),
        "Where the issuer's public keys are."),
    Key("RELAY_FLEET", TRUTH,
        "Tokens for many edges (aud: fleet) that list this one are accepted over NATS.",
        default=False),
    Key("FLEET_ALL", TRUTH,
        "A relay front accepts fleet tokens for every edge (edges_allow: ['*']).", default=False),
    Key("FLEET_HOSTS", map_of(HOST_OR_NETWORK),
        "Of a relay front: edge id, or '*', to the host at which the front says that the "
        "page and the metrics of this edge are, such as {edge-1: 10.20.3.4}; a network accepts "
        "each address in it. An edge without an entry has neither (docs/fleet.md).",
        default=MappingProxyType({})),
    Key("RELAY_INVENTORY", choice(InventoryPlace),
        "Where relay fronts keep the edges: memory, or NATS JetStream, which keeps "
        "them while no front runs.", default=InventoryPlace.MEMORY),
    Key("METRICS", choice(MetricsAccess),
        "/metrics on the MCP port, for Prometheus, with the endpoint's protection.",
        default=MetricsAccess.READ),
    Key("SESSION_IDLE_SEC", integer(1, 604_800),
        "Seconds after which an idle MCP session ends; never under a running call.", default=1800),
    Key("MAX_SESSIONS", integer(1, 1_000_000),
        "Maximum number of MCP sessions. One caller (an address, or over the relay a "
        "subject) has at most a tenth of them, and at least 10; a new session ends one of the "
        "caller with the most that nobody uses.", default=10_000),
    Key("WAVEFORM_MEMORY_MB", _MEBIBYTES,
        "Memory for captured waveforms and large pictures; the oldest are removed.", default=256),
    Key("MAX_BLOCK_MB", integer(1, 1024),
        "Largest waveform or picture that is read from an instrument at once, in MiB.", default=64),
    Key("AUDIT_RETENTION_DAYS", integer(1, 36_500),
        "How long rows of the audit log are kept.", default=365),
    Key("DATA_BUDGET_MB", _MEBIBYTES,
        "Size of DATA_DIR above which new recordings are refused.", default=10_240),
    Key("HEARTBEAT_SEC", integer(0, 86_400),
        "Seconds after which an idle LAN or serial instrument is asked its probe, so that "
        "one that does not answer is known; 0: never.", default=60),
    Key("LEASE_MAX_SEC", integer(0, 604_800),
        "Seconds after its grant that a lease of instruments lasts at most, however often "
        "it is renewed; 0: none are given.", default=43_200),
    Key("GONE_AFTER_SEC", integer(1, 86_400),
        "Seconds of silence after which a LAN or configured instrument counts as gone.",
        default=10),
    Key("ABORT_AFTER_CRASH_SEC", integer(0, 86_400),
        "How old a crashed sweep's journal may be for its abort to be sent unasked.", default=120),
    Key("ON_EXIT", choice(OnExit),
        "What happens to outputs that may be on when the engine is stopped or restarted: "
        "leave them on and name them, or safe: send the abort of each of those instruments. Sweeps "
        "are aborted in both cases, and sequences run their finally steps (docs/sweeps.md).",
        default=OnExit.LEAVE),
    Key("LOG_LEVEL", choice(LogLevel),
        "The least severe events that are logged.", default=LogLevel.INFO),
    Key("LOG_FORMAT", choice(LogFormat),
        "auto: console on a terminal, JSON lines otherwise.", default=LogFormat.AUTO),
)  # fmt: skip

KEYS: Final[Mapping[str, Key]] = MappingProxyType({key.name: key for key in _TABLE})

RENAMED: Final[Mapping[str, str]] = MappingProxyType({})
"""Former name → today's, for every key that a release has renamed: the former one is understood
still, with a warning. None has been yet."""
