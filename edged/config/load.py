"""The configuration: flag > environment > drop-in > file > default, and every complaint about it.

``load_config`` gathers what was set where, lets each key's own kind judge it, and answers with a
frozen ``Config`` plus the origin of each value; or raises one ``Invalid`` that lists everything
that is wrong, each with file, line, key and the nearest key there is. The keys themselves are in
``keys.py``. Read once, at the start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged.config.instruments import InstrumentEntry
from edged.config.keys import (
    KEYS,
    RENAMED,
    BenchPage,
    Bus,
    Exposure,
    InventoryPlace,
    ListedTools,
    LogFormat,
    LogLevel,
    MetricsAccess,
    OnExit,
    RawScpi,
    SdkTools,
    ToolNames,
    VisaServer,
)
from edged.config.kinds import IpNetwork, parse_scalar, parse_text, read_file
from edged.errors import ErrorCode, Invalid
from edged.files import resolved
from edged.host import ENVIRONMENT_PREFIX, LEASE_VARIABLE, Places, places_here
from edged.record import record
from edged.schema.fields import Fields, every_complaint
from edged.schema.tables import Key
from edged.yaml.tree import MapNode, Mark, Node, ScalarNode, YamlProblem

MAX_DROP_INS: Final = 100
REAL_THINGS: Final = frozenset({"DISCOVERY", "SDK_WRAPPER_DIRS"})
"""Keys that are empty beside a simulated bench unless they are set."""
FLOW_STARTS: Final = ("[", "{", '"', "'")


@record
class Config:
    """Every key of ``config_keys.KEYS``, parsed; see there for what each means."""

    mcp_enabled: bool
    mcp_port: int
    mcp_path: str
    bench_page: BenchPage
    rescan_interval_sec: int
    inbound_auth_token: str | None
    edge_id: str | None
    edge_name: str
    rpc_port: int
    state_dir: Path
    data_dir: Path
    profile_dirs: tuple[Path, ...]
    experiment_dirs: tuple[Path, ...]
    sdk_wrapper_dirs: tuple[Path, ...]
    sdk_libraries: Mapping[str, Path]
    sdk_settings: Mapping[str, Mapping[str, str]]
    sdk_tools: SdkTools
    sdk_environment: tuple[str, ...]
    sdk_memory_mb: int
    bench_file: Path
    instruments: tuple[InstrumentEntry, ...]
    discovery: tuple[Bus, ...]
    serial_ports: tuple[str, ...]
    visa_library: str
    expose: tuple[Exposure, ...]
    visa_server: tuple[VisaServer, ...]
    hislip_port: int
    expose_visa: bool
    allowed_networks: tuple[IpNetwork, ...]
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    direct_tools_allow: frozenset[str] | None
    direct_danger_allow: bool
    tools: ListedTools
    tool_names: ToolNames
    raw_scpi: RawScpi
    relay_url: str | None
    relay_nats_url: str | None
    relay_credentials: Path | None
    relay_ca_file: Path | None
    relay_issuer: str | None
    relay_jwks_url: str | None
    relay_fleet: bool
    fleet_all: bool
    fleet_hosts: Mapping[str, str | IpNetwork]
    relay_inventory: InventoryPlace
    metrics: MetricsAccess
    session_idle_sec: int
    max_sessions: int
    waveform_memory_mb: int
    max_block_mb: int
    audit_retention_days: int
    data_budget_mb: int
    heartbeat_sec: int
    lease_max_sec: int
    gone_after_sec: int
    abort_after_crash_sec: int
    on_exit: OnExit
    log_level: LogLevel
    log_format: LogFormat


@record
class LoadedConfig:
    """A configuration and where each of its values came from.

    Attributes:
        origins: key → "default", "/etc/edged/edged.yaml:12", "EDGED_MCP_PORT", "--mcp-port".
        warnings: whole sentences about what works and should be changed.
    """

    config: Config
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@record
class ConfigComplaint:
    """One thing wrong: where (a file with its line, a variable, a flag), which key, and why."""

    where: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@record
class KeySetting:
    """A key that was set somewhere; ``where`` lacks the line, which is the value's."""

    key: str
    node: Node
    where: str
    base: Path
    line: int = 1
    has_lines: bool = False

    def place(self, line: int) -> str:
        """Where a complaint about that line of it points."""
        return f"{self.where}:{line}" if self.has_lines else self.where


def this_machine() -> Places:
    """``places_here``, with the state directories as files in them are opened.

    Raises:
        Invalid: UNSUPPORTED_PLATFORM.
    """
    places = places_here()
    return dataclasses.replace(places, state_dirs=tuple(map(resolved, places.state_dirs)))


def load_config(
    *,
    places: Places,
    environ: Mapping[str, str],
    file: Path | None = None,
    flags: Sequence[tuple[str, str, str]] = (),
    is_simulated: bool = False,
    renamed: Mapping[str, str] = RENAMED,
) -> LoadedConfig:
    """Gather, judge and merge.

    Args:
        places: where this machine keeps things.
        environ: the environment; only EDGED_… variables are looked at.
        file: the configuration file to read instead of the machine's own; it must exist.
        flags: (key, value as one would write it in the file, flag as typed), later ones win.
        is_simulated: a simulated bench is wanted, so no bus is looked at unless DISCOVERY is set,
            and no wrapper is loaded that could work a real device, unless SDK_WRAPPER_DIRS is.
        renamed: former names of keys → today's.

    Raises:
        Invalid: BAD_CONFIG; ``data["complaints"]`` lists all that is wrong. A program ends with
            ``ExitStatus.CONFIG`` then.
    """
    complaints: list[ConfigComplaint] = []
    config_file = places.config_file if file is None else file
    layers = [
        *_read_files(config_file, is_required=file is not None, complaints=complaints),
        *_read_environment(environ, complaints),
        *_read_flags(flags, complaints),
    ]
    layers, warnings = _under_todays_names(layers, renamed, complaints)
    fields = {
        key.name.lower(): _default(key, places, is_simulated=is_simulated) for key in KEYS.values()
    }
    origins = dict.fromkeys(KEYS, "default")
    for setting in layers:
        key = KEYS.get(setting.key)
        if key is None:
            complaints.append(_unknown_key(setting))
            continue
        try:
            fields[key.name.lower()] = _take(key, setting, places, is_simulated=is_simulated)
        except Invalid as error:
            complaints += [
                ConfigComplaint(
                    where=setting.place(one.data["line"]),
                    key=key.name,
                    message=f"{one.data['message']} {one.remedy}".rstrip(),
                )
                for one in every_complaint(error)
            ]
        origins[key.name] = setting.place(setting.line)
    if origins["DATA_DIR"] == "default" and origins["STATE_DIR"] != "default":
        # Whoever moves the state means to move all that is written.
        fields["data_dir"] = fields["state_dir"] / "data"
    for field in ("state_dir", "data_dir"):
        # Nothing below is reached through a link: these two may be.
        fields[field] = resolved(fields[field])
    complaints.extend(_contradictions(fields, origins) if not complaints else ())
    if complaints:
        raise _as_error(complaints)
    return LoadedConfig(config=Config(**fields), origins=origins, warnings=warnings)


def _under_todays_names(
    layers: Sequence[KeySetting], renamed: Mapping[str, str], complaints: list[ConfigComplaint]
) -> tuple[list[KeySetting], tuple[str, ...]]:
    """The settings with former names of keys replaced, and a warning for each."""
    in_files = {(setting.key, setting.where) for setting in layers if setting.has_lines}
    settings: list[KeySetting] = []
    warnings: list[str] = []
    for setting in layers:
        today = renamed.get(setting.key)
        if today is None:
            settings.append(setting)
            continue
        place = setting.place(setting.line)
        told = f"{setting.key} is called {today} now"
        if (today, setting.where) in in_files:
            # Which of the two is meant cannot be known.
            message = f"{told}, which is set here, too; take {setting.key} out."
            complaints.append(ConfigComplaint(where=place, key=setting.key, message=message))
            continue
        warnings.append(f"{place}: {told}; the former name will be removed in a later version.")
        settings.append(dataclasses.replace(setting, key=today))
    return settings, tuple(warnings)


def _take(key: Key, setting: KeySetting, places: Places, *, is_simulated: bool) -> Any:
    node = setting.node
    if key.kind.read is None or (isinstance(node, ScalarNode) and node.value is None):
        # `KEY:` with nothing after it gives the key back to its default.
        return _default(key, places, is_simulated=is_simulated)
    fields = Fields(MapNode(node.mark, {key.name: node}, {}), "")
    return _from_base(key.kind.read(fields, key.name, node, ()), setting.base)


def _from_base(value: Any, base: Path) -> Any:
    """A value with each relative path in it starting from a directory."""
    match value:
        case Path():
            return base / value
        case (Path(), *_):
            return tuple(base / path for path in value)
        case Mapping():
            return MappingProxyType({name: _from_base(one, base) for name, one in value.items()})
    return value


def _default(key: Key, places: Places, *, is_simulated: bool) -> Any:
    if is_simulated and key.name in REAL_THINGS:
        return ()
    return key.default(places) if callable(key.default) else key.default


def _read_files(
    config_file: Path, *, is_required: bool, complaints: list[ConfigComplaint]
) -> Iterator[KeySetting]:
    """Settings of the file, then of its drop-ins by name."""
    drop_in_dir = config_file.with_name(f"{config_file.name}.d")
    drop_ins = sorted(drop_in_dir.glob("*.yaml")) if drop_in_dir.is_dir() else []
    if len(drop_ins) > MAX_DROP_INS:
        message = f"There are more than {MAX_DROP_INS} drop-ins."
        complaints.append(ConfigComplaint(where=str(drop_in_dir), key="", message=message))
    is_wanted = is_required or config_file.exists()
    for path in ([config_file] if is_wanted else []) + drop_ins[:MAX_DROP_INS]:
        try:
            root = _read_mapping(path)
        except YamlProblem as problem:
            where = f"{path}:{problem.mark.line}"
            complaints.append(ConfigComplaint(where=where, key="", message=_told(problem)))
            continue
        for key, entry in root.entries.items():
            yield KeySetting(
                key=key,
                node=entry,
                where=str(path),
                base=path.absolute().parent,
                line=root.keys[key].mark.line,
                has_lines=True,
            )


def _read_mapping(path: Path) -> MapNode:
    root = read_file(path)
    if root is None or (isinstance(root, ScalarNode) and root.value is None):
        return MapNode(Mark(path=str(path), line=1, column=1), {}, {})
    if not isinstance(root, MapNode):
        raise YamlProblem(root.mark, "It must be a mapping of keys to values.")
    return root


def _told(problem: YamlProblem) -> str:
    return " ".join(filter(None, (problem.sentence, problem.remedy)))


def _read_environment(
    environ: Mapping[str, str], complaints: list[ConfigComplaint]
) -> Iterator[KeySetting]:
    for name in sorted(environ):
        if name.startswith(ENVIRONMENT_PREFIX) and name != LEASE_VARIABLE:
            where = f"{name} in the environment"
            key = name.removeprefix(ENVIRONMENT_PREFIX)
            yield from _read_text(key, environ[name], where, complaints)


def _read_flags(
    flags: Sequence[tuple[str, str, str]], complaints: list[ConfigComplaint]
) -> Iterator[KeySetting]:
    for key, text, flag in flags:
        yield from _read_text(key, text, flag, complaints)


def _read_text(
    key: str, text: str, where: str, complaints: list[ConfigComplaint]
) -> Iterator[KeySetting]:
    """A value given in one line: a flow list, flow map or quoted string as YAML, else a scalar."""
    try:
        text = text.strip()
        node = parse_text(text) if text.startswith(FLOW_STARTS) else parse_scalar(text)
    except YamlProblem as problem:
        complaints.append(ConfigComplaint(where=where, key=key, message=f"{key}: {_told(problem)}"))
        return
    if node is not None:
        yield KeySetting(key=key, node=node, where=where, base=Path.cwd())


def _unknown_key(setting: KeySetting) -> ConfigComplaint:
    import difflib  # for those who mistyped

    near = difflib.get_close_matches(setting.key.upper(), KEYS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else " docs/configuration.md lists all keys."
    name = "".join(character if character.isprintable() else "?" for character in setting.key)
    return ConfigComplaint(
        where=setting.place(setting.line),
        key=setting.key,
        message=f"{name[:100]} is not a configuration key.{hint}",
    )


def _contradictions(
    fields: Mapping[str, Any], origins: Mapping[str, str]
) -> Iterator[ConfigComplaint]:
    """What is wrong between keys, each of which is right by itself."""
    if fields["mcp_enabled"] and fields["mcp_port"] and fields["mcp_port"] == fields["rpc_port"]:
        set_one = "MCP_PORT" if origins["MCP_PORT"] != "default" else "RPC_PORT"
        yield ConfigComplaint(
            where=origins[set_one],
            key=set_one,
            message=f"MCP_PORT and RPC_PORT are both {fields['mcp_port']}; they must differ.",
        )


def _as_error(complaints: Sequence[ConfigComplaint]) -> Invalid:
    return Invalid(
        "\n".join(str(complaint) for complaint in complaints),
        code=ErrorCode.BAD_CONFIG,
        data={
            "complaints": [
                {"where": complaint.where, "key": complaint.key, "message": complaint.message}
                for complaint in complaints
            ]
        },
    )
