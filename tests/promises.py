"""What SPEC.md promises, sentence by sentence, and the mark by which a test says which it holds.

``tests/test_promises.py`` fails on a promise without a test and on a test that names none that is
here. ``pytest -m promise -v`` prints the list as a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence and the section of SPEC.md it stands in."""

    section: str
    sentence: str


PROMISES: Mapping[str, Promise] = MappingProxyType(
    {
        # 1, 2: processes and configuration
        "platform.windows-shape": Promise("1", "A daemon for Linux, Raspberry Pi, Windows."),
        "platform.macos-refused": Promise("1", "On macOS it says so and stops."),
        "config.all-keys": Promise("2", "Every key of the table is accepted and validated."),
        "config.precedence": Promise("2", "Flag > environment > drop-in > file > default."),
        "config.complaint": Promise(
            "2", "A complaint names file, line, key and the nearest known key; exit status 78."
        ),
        "config.hostile-file": Promise(
            "13", "No YAML makes a program of edged hang or grow without bound."
        ),
        "config.sim-discovers-nothing": Promise("2", "DISCOVERY is [] under --sim unless set."),
        "config.edge-id-kept": Promise("2", "EDGE_ID is made once and kept."),
        "config.documented": Promise("2", "docs/configuration.md is what the table says."),
        "log.no-secrets": Promise("9", "Never a hint of a key or token, in the log neither."),
        # 6: instruments
        "line.no-late-answer": Promise(
            "6", "A late answer is never taken for the answer to another question."
        ),
        "line.in-step": Promise(
            "14", "No call that says success carries the answer to another question."
        ),
        "line.identity-owed": Promise(
            "14", "After a time-out the unit proves who it is before anything is changed."
        ),
        "line.no-crossed-answer": Promise("6", "Nothing but its actor touches a session."),
        "line.safe-overtakes": Promise(
            "13", "A stop reaches the instrument within 500 ms beside a hung 30 s query."
        ),
        "line.one-hang-delays-no-other": Promise(
            "6", "One dead or slow instrument never delays another or the event loop."
        ),
        "line.second-for-aborts": Promise(
            "6", "An alternative address is fail-over, and a second line for aborts."
        ),
        "instruments.owner-settings": Promise(
            "2", "INSTRUMENTS: what the owner says of one instrument comes before its profile."
        ),
        "instruments.silent-error-query": Promise(
            "6", "What answers *IDN? is usable, error query or not; doctor warns."
        ),
        "rpc.metrics": Promise("8", "/metrics tells all that the reference page lists."),
        "store.newer-refused": Promise(
            "8", "A newer database than the program is refused with a sentence."
        ),
        "store.damaged-kept": Promise("8", "A corrupt file is kept aside, never deleted."),
        "line.comes-back-by-itself": Promise(
            "6", "A power-cycled instrument comes back by itself."
        ),
        "line.no-silent-repeat": Promise("6", "What was sent is never silently sent again."),
        "instruments.every-transport": Promise(
            "6", "Raw socket, VXI-11, HiSLIP, serial and Prologix lead to instruments."
        ),
        "line.trace": Promise("8", "The last exchanges of a line are shown, with times."),
        "sim.quirky": Promise(
            "11", "Quirky as the real ones are, and written from the facts, not from our profile."
        ),
        "profile.every-command-works": Promise(
            "1", "It offers every profile command as a typed, limit-checked tool."
        ),
        "sim.fault-verb": Promise("11", "edged sim fault gives a simulated instrument a fault."),
        "line.hislip-ids": Promise(
            "14", "HiSLIP message ids never start again within a session, also after a clear."
        ),
        "line.wire-errors": Promise(
            "14", "Errors of VXI-11 and HiSLIP are told in words, with what to do."
        ),
        "line.adapter-greets": Promise(
            "14", "A Prologix look-alike may greet; its buffer is emptied before each exchange."
        ),
        "line.adapter-stuck": Promise(
            "14", "A stop does not wait for an adapter that is stuck in a read."
        ),
        "line.parity": Promise("14", "A parity error makes a bad answer."),
        "line.stops-while-hung": Promise("6", "Stopping does not wait for a hung read."),
        "instruments.never-another-unit": Promise(
            "5", "Within one life of the daemon a name never comes to drive another instrument."
        ),
        "instruments.set-aside": Promise(
            "6", "A device that hangs on *IDN? is set aside with a reason and delays nothing."
        ),
        "discovery.simulated-bench": Promise(
            "4", "scan_instruments asks the buses, the simulated bench too, again."
        ),
        "discovery.rescan": Promise("6", "A scan each RESCAN_INTERVAL_SEC finds what came."),
        "discovery.ids-normalised": Promise(
            "6", "Decimal and hexadecimal ids, and NUL in serial numbers, are one device."
        ),
        "discovery.serial-unasked": Promise(
            "2", "Only SERIAL_PORTS and known USB ids are ever asked."
        ),
        "hotplug.kernel-only": Promise("6", "Only the kernel's own hot-plug events count."),
        "instruments.any-order": Promise(
            "13",
            "In any order of coming and going no name comes to mean another instrument, "
            "and every session is told.",
        ),
        "discovery.bad-bus": Promise("6", "One bad bus delays neither others nor the loop."),
        "hotplug.within-two-seconds": Promise("6", "Plug-in to list_changed in about 2 s."),
        "hotplug.usb": Promise("6", "A USB instrument comes, goes and comes back."),
        "hotplug.kernel": Promise("6", "The kernel's hot-plug events are heard."),
        "discovery.lan": Promise("6", "LAN devices are found by mDNS and the VXI-11 broadcast."),
        "hotplug.unplug": Promise(
            "6", "Unplug: its tools go, running work on it fails with a clear error."
        ),
        "instruments.set-aside-again": Promise(
            "6", "What was set aside is asked again when replugged."
        ),
        "instruments.owners-word": Promise(
            "6", "An instrument whose owner names its profile is usable though it knows no *IDN?."
        ),
        "profiles.tie-is-told": Promise("5", "Two profiles that match equally are told of."),
        "instruments.gone-stays-listed": Promise(
            "6", "A configured instrument that is gone stays listed, without tools."
        ),
        "instruments.no-setting-changed": Promise(
            "6", "The daemon changes no setting of an instrument at registration."
        ),
        "instruments.one-unit-two-addresses": Promise(
            "6", "A unit reachable at two addresses is one instrument with an alternative."
        ),
        # 2, 3, 4, 6, 13: the engine
        # 3: the MCP endpoint on the wire
        "mcp.error-bodies": Promise(
            "3", "What is unusable is 4xx with a JSON-RPC error body, parser refusals included."
        ),
        "mcp.resources": Promise(
            "3", "Resources are listed and read in every revision, each in its own shape."
        ),
        "mcp.resource-news": Promise(
            "3", "Who subscribes hears of each change, over a session or a listen stream."
        ),
        "mcp.resource-claims": Promise(
            "9", "What a tool would not tell a caller, a resource does not tell either."
        ),
        "mcp.limits": Promise(
            "3", "Body 4 MiB, header 32 KiB, a slow sender is cut: 4xx with an error body."
        ),
        "mcp.rebinding-guard": Promise("3", "A foreign Host or Origin gets 403."),
        "mcp.session-404": Promise("3", "An unknown or ended session gets exactly 404."),
        "mcp.one-shot": Promise("3", "A call without a session is served as a one-shot."),
        "mcp.session-expiry": Promise("3", "Idle sessions expire, never under a running call."),
        "mcp.eviction": Promise("2", "At MAX_SESSIONS the oldest idle session is evicted."),
        "mcp.same-id": Promise("3", "Two requests in flight with one id are both answered."),
        "mcp.list-changed": Promise("3", "list_changed goes to every session, or waits once."),
        "mcp.get-replaces": Promise("3", "A second GET stream replaces the first."),
        "mcp.no-rate-limit": Promise("3", "Nothing is rate limited."),
        "mcp.list-wrapped": Promise(
            "3", "A list is bare in the text, wrapped in structuredContent."
        ),
        "mcp.listing-choice": Promise("2", "TOOLS and the URL's query decide what is listed."),
        "mcp.argument-errors": Promise("12", "Bad arguments are isError from 2025-11-25 on."),
        "mcp.faults": Promise("12", "A fault is -32603 with an id that is in the log."),
        "mcp.gone-cancels": Promise("7", "A client that disconnects cancels its stream."),
        "mcp.cancelled": Promise("3", "notifications/cancelled ends a call of its session."),
        "relay.never-direct": Promise(
            "9", "Edge-Caller-JWT, even empty, on any verb and method, is never the direct route."
        ),
        "mcp.smoke": Promise("3", "The smoke test: initialize answers 200 and a JSON-RPC result."),
        "mcp.no-old-transport": Promise("3", "The old two-endpoint SSE transport does not exist."),
        "mcp.port-taken": Promise("2", "A taken MCP port is one warning; the rest starts."),
        "mcp.disabled": Promise("2", "MCP_ENABLED: false binds nothing."),
        "rpc.port-taken": Promise("2", "A taken RPC port stops the start, naming the holder."),
        "rpc.token-never-gates-mcp": Promise("2", "INBOUND_AUTH_TOKEN never gates MCP."),
        "engine.one-a-state-directory": Promise("2", "A second engine there: exit 69 and the PID."),
        "engine.sigterm": Promise("13", "SIGTERM: exit within 5 s."),
        "tools.static-present": Promise(
            "4", "Static tools are always there, described and hinted."
        ),
        "tools.cached-state-touches-nothing": Promise(
            "4", "list_instruments and get_capabilities touch no hardware."
        ),
        "limits.nothing-sent": Promise(
            "13", "Nothing reaches an instrument that failed validation."
        ),
        "instruments.no-late-answer": Promise(
            "13", "No late answer is ever returned for another question."
        ),
        "instruments.hung-one-delays-none": Promise(
            "6", "One dead or slow instrument never delays another."
        ),
        "stop.beside-hung-read": Promise("13", "A stop reaches an instrument beside a hung query."),
        "list-changed.second-instance": Promise(
            "5", "The second instance's arrival re-emits the first's tools under new names."
        ),
        "names.never-retarget": Promise(
            "5", "Within one life of the daemon a name never comes to drive another instrument."
        ),
        "clients.official": Promise("3", "Official SDK clients, old and new, work side by side."),
        "revisions.all-at-one-endpoint": Promise(
            "3", "Four revisions are served at one endpoint, chosen per request."
        ),
        "revisions.every-rule": Promise("3", "The four are served as MCP-REVISIONS.md rules."),
        "revisions.official-suite": Promise(
            "3", "The official conformance suites find nothing wrong that applies."
        ),
        "tools.annotations": Promise("5", "Annotations: always all four, by danger and query."),
        "requires-sweep.every-road": Promise(
            "12", "requires_sweep is refused by any road but start_sweep."
        ),
        "store.hung-is-told": Promise(
            "14", "A disk that hangs is stalled, and every wait for it has a deadline."
        ),
        "store.hung-ends-in-time": Promise(
            "14", "On SIGTERM: listeners closed, made safe within 5 s whatever the disk does."
        ),
        "audit.retention-needs-a-clock": Promise(
            "14", "Retention deletes nothing while the clock is implausible."
        ),
        "store.lost-log-is-told": Promise(
            "14", "A lost log or file: told within 10 s; audit verify tells it for good."
        ),
        "store.safe-without-the-log": Promise(
            "14", "After kill -9 without the log lockouts hold and the abort is tried."
        ),
        "mcp.siege-is-bounded": Promise(
            "13", "Unread streams, left sessions and half requests cost little, hold nobody up."
        ),
        "data.one-engine": Promise(
            "14", "DATA_DIR has a lock: exit 69 names it, the holder's PID and STATE_DIR."
        ),
        "store.broken-refuses-writes-only": Promise(
            "8", "Database broken: writes are refused, safe commands and reads go on."
        ),
        "audit.row-of-every-attempt": Promise(
            "8", "Every attempt, refused ones included, is a row."
        ),
        "audit.intent-on-disk": Promise(
            "8", "For a write or a dangerous command the intent is on disk before bytes are sent."
        ),
        "audit.chained": Promise("8", "A hash chained to the row before: tampering is found."),
        "audit.no-secrets": Promise("9", "Never a hint of a key or token, in the audit neither."),
        "store.heals": Promise("8", "A full or broken database heals without a restart."),
        "store.survives-kill": Promise("13", "kill -9, power loss: database intact."),
        "capability.kept": Promise("8", "Capability tracking is kept over restarts."),
        "lockout.refuses-writes": Promise(
            "8", "Locked out: every write but safe ones is refused with the reason."
        ),
        "lockout.stops-first": Promise("8", "A lockout first stops what runs there."),
        "rpc.token": Promise("8", "Bearer INBOUND_AUTH_TOKEN when set, 401 otherwise."),
        "rpc.events": Promise("8", "WebSocket /events; a slow reader is told what it missed."),
        "rpc.documented": Promise("8", "docs/rpc.md is what the method table says."),
        "rpc.nothing-crashes": Promise(
            "13", "No RPC method with whatever parameters gives a 500, a traceback or a hang."
        ),
        "doctor.real-initialize": Promise(
            "8", "doctor's MCP line shows the bound port, and passes only by a real initialize."
        ),
        "doctor.port-of-another": Promise(
            "8", "doctor FAILs when the port is another program's, naming it."
        ),
        "doctor.believes-the-engine": Promise(
            "8", "doctor goes by what the running engine says of itself, not by the file alone."
        ),
        "doctor.engine-down": Promise("8", "doctor works with the engine down; exit 1 on FAIL."),
        "audit.command-line": Promise("8", "edged audit list | follow | verify | export."),
        "audit.same-row-by-every-surface": Promise(
            "8", "MCP and RPC calls of one command leave the same rows but for the transport."
        ),
        "capability.shared": Promise(
            "8", "Capability tracking is shared by all surfaces and shown in get_capabilities."
        ),
        "lockout.persisted": Promise("8", "A lockout is persisted until it is cleared."),
        "auth.tool-before-lookup": Promise("9", "Tool and scope before anything is looked up."),
        "direct.bounded-by-owner": Promise("9", "An owner may bound the direct route."),
        "raw.owner-limits-hold": Promise(
            "5", "The owner's limits hold on every road, raw SCPI included."
        ),
        # 5: profiles, names, the bench file
        "profile.located": Promise(
            "5", "Whatever is wrong in a profile is named with file, line, column and a suggestion."
        ),
        "profile.bad-file-harms-none": Promise("5", "A bad file keeps no other from being loaded."),
        "profile.shipped-clean": Promise("5", "Every shipped profile is clean under lint."),
        "match.longest": Promise("5", "The longest match of *IDN? wins; a tie is told."),
        "name.short-id": Promise(
            "5", "Several instances take the last 8 characters of their ids, or more, all as many."
        ),
        "bench.only-tightens": Promise(
            "5", "The bench file narrows a unit; an entry that would widen is an error with line."
        ),
        "raw.units-both-ways": Promise(
            "14", "A number with a unit in a raw line is within its limit with it and without."
        ),
        "raw.sweep-as-typed": Promise(
            "14", "A profile's requires_sweep binds its command, the owner's binds the line."
        ),
        "raw.refusal-in-its-shape": Promise(
            "Amended", "A refusal of send_scpi has response: null and execution_time_ms."
        ),
        "owner.file-lost-lifts-nothing": Promise(
            "14", "A bench file that is gone, unreadable or broken leaves the last good in force."
        ),
        "arguments.null-is-left-out": Promise(
            "Amended", "Null for an optional argument is leaving it out, on every tool and method."
        ),
        "sweep.stop-tells-what-is-on": Promise(
            "Amended", "stop_sweep says whether it aborted, and of what was over what is still on."
        ),
        "sweep.readback-is-fresh": Promise(
            "Amended", "Where a sweep ends or parks it is read once more after it has settled."
        ),
        "owner.asked-when-it-goes-out": Promise(
            "14", "What the owner changes holds for writes that wait, when they go out."
        ),
        # 8: the command line
        "cli.no-engine": Promise("8", "A CLI verb without an engine says so and exits with 69."),
        "cli.light": Promise("8", "A CLI verb loads neither the VISA nor the tool floors."),
        "cli.typed-arguments": Promise("8", "edged call types key=value by the tool's schema."),
        "cli.exit-statuses": Promise("8", "Exit statuses mean something."),
        "rpc.token-of-client": Promise("8", "The CLI presents INBOUND_AUTH_TOKEN."),
        # 7: sweeps, stop all
        "sweep.never-a-jump": Promise(
            "7", "Never more than rate x one interval in one step; never a catch-up jump."
        ),
        "sweep.arrives-on-time": Promise("7", "A rate below one display step arrives on time too."),
        "sweep.table": Promise("7", "Every transition of the sweep's table, none other."),
        "sweep.hold-parks": Promise("7", "stop_sweep hold=true parks at the current value."),
        "sweep.abort-first": Promise("7", "The abort SCPI is run first."),
        "sweep.safe-passes": Promise("7", "Safe commands pass and stop the sweep."),
        "sweep.one-writer": Promise("7", "Another writer is refused with the sweep's id."),
        "sweep.journal-broken-holds": Promise(
            "8", "A running sweep whose journal cannot be written holds and says why."
        ),
        "sweep.measure-authorized": Promise(
            "9", "Each command in measure must be allowed by itself."
        ),
        "sweep.outlives-client": Promise("1", "A client that vanishes never strands hardware."),
        "sequence.finally-after-crash": Promise(
            "7", "A sequence is journalled like a sweep: finally runs at the next start."
        ),
        "crash.first-aid": Promise(
            "7", "At the next start, before any scan, the abort SCPI is run."
        ),
        "crash.rule": Promise(
            "7", "Daemon died: the abort is run only for the unit and moment of the journal."
        ),
        "stop-all.everything": Promise(
            "7", "Stop all runs each abort, ends all work, and reports what was confirmed."
        ),
        "stop-all.truth": Promise(
            "14", "Stop all is confirmed only by units that answered that they are off."
        ),
        "capture.fresh": Promise(
            "14", "A capture after a stop says that its trace is old, until the scope runs again."
        ),
        "stop-all.goes-on": Promise(
            "14", "What has not answered within 1 s is not confirmed and goes on being tried."
        ),
        "stop-all.every-output": Promise(
            "14", "Every output that a profile can switch on or set is in its abort, or excluded."
        ),
        "stop-all.outlives": Promise(
            "14", "What was told to put something out is known after a restart, kill -9 included."
        ),
        "stop-all.hung-one-delays-none": Promise(
            "7", "Stop all pre-empts every line at once; a hung one delays no other."
        ),
        "shutdown.sweeps-aborted": Promise("13", "SIGTERM: sweeps aborted."),
        # 7: streams, waveforms, recorded data
        "stream.client-gone": Promise(
            "7", "A client that disconnects cancels its stream within one interval."
        ),
        "stream.queries-only": Promise(
            "7", "start_stream takes only commands with is_query that are not requires_sweep."
        ),
        "stream.danger": Promise(
            "9", "danger_allow false blocks whatever is dangerous underneath, a stream included."
        ),
        "stream.one-end": Promise(
            "7", "A stream ends in one state; the instrument is left idle, whatever ended it."
        ),
        "stream.constant-memory": Promise(
            "13", "A stream of a day takes the same memory as one of a minute."
        ),
        "stream.slow-reader": Promise(
            "7", "Points are dropped for a slow reader, never the measurement or the final result."
        ),
        "runs.budget": Promise(
            "7", "Never deleted by the daemon; over DATA_BUDGET_MB new recordings are refused."
        ),
        "sdk.result-is-bounded": Promise(
            "16",
            "A wrapper's result over 1 MiB is an error that names the limit, and costs nobody.",
        ),
        "runs.elapsed": Promise("14", "data.csv has a column elapsed_s from a monotonic clock."),
        "runs.no-formulas": Promise(
            "14", "Text of an instrument is guarded against formulas in every CSV, numbers never."
        ),
        "runs.ended-is-on-disk": Promise(
            "14", "A recording is `ended` only when its last row is on disk."
        ),
        "runs.harm-is-told": Promise(
            "14", "Files of a recording that another program takes away are told, never complete."
        ),
        "runs.kill": Promise("13", "kill -9: recorded data are intact but for the last second."),
        # 9: who may call
        "auth.no-keys-is-503": Promise(
            "14", "A key server that cannot be reached with a cold cache is 503, not 401."
        ),
        "auth.bad-tokens": Promise(
            "9", "A token for which a row of the claims table fails is refused."
        ),
        "auth.new-kids-at-once": Promise(
            "9", "Up to 8 kids not seen since the last fetch are worth one fetch each at once."
        ),
        "auth.jwks-flood": Promise("9", "A flood of bad tokens never hammers the JWKS endpoint."),
        "auth.jwks-stale": Promise(
            "9", "The cached keys serve while the JWKS cannot be reached, until the 24 h end."
        ),
        "auth.token-before-body": Promise(
            "9", "A relayed request is checked; whoever has no good token gets no memory."
        ),
        "auth.jwks-restart": Promise("9", "The keys are kept over a restart."),
        "auth.flood-no-disk": Promise(
            "13", "A flood of refused tokens does not make the audit grow without bound."
        ),
        "auth.flood-at-the-door": Promise(
            "9", "A flood of 10,000 bad tokens makes at most one extra JWKS request a minute."
        ),
        "restart.when-idle": Promise(
            "9", "The supervisor restarts the engine; an upgrade never restarts a bench at work."
        ),
        "supervisor.abort-after-kill": Promise(
            "13", "kill -9 of the engine under the supervisor: abort bytes within 3 s."
        ),
        "proxy.peer-in-audit": Promise("9", "The audit names the client behind the proxy."),
        "auth.measure": Promise(
            "9", "Each command in a sweep's measure must be allowed by itself."
        ),
        "relay.whole-chain": Promise(
            "9", "The supervisor passes bodies, SSE and cancellations through the relay."
        ),
        "relay.engine-back": Promise("9", "A killed engine is back by itself behind the relay."),
        "relay.round": Promise("9", "Bodies, SSE and sessions pass through any relay front."),
        "relay.front-checks": Promise("9", "The relay front checks the bearer token too."),
        "relay.edge-holds": Promise("9", "The edge holds even if the relay is hostile."),
        "relay.offline": Promise("9", "An edge that is offline is a 503 within two seconds."),
        "relay.cancel": Promise("9", "Cancellation passes through the relay."),
        "relay.front-host": Promise("3", "The relay front guards its own name."),
        "relay.credentials": Promise("2", "RELAY_CREDENTIALS opens the relay's NATS server."),
        "relay.link-told": Promise("8", "Doctor has a line on the relay."),
        "relay.reconnect": Promise("9", "The relay comes back after its server was away."),
        "relay.flow-control": Promise("9", "A slow client of the relay fills no memory."),
        "relay.isolation": Promise("9", "One edge cannot hear another's requests."),
        "network.no-configuration": Promise(
            "3", "A client on the private network that uses address or name needs no configuration."
        ),
        "supervisor.away-at-once": Promise("9", "No hang while the engine is away."),
        "mcp.own-origin": Promise(
            "3", "An Origin equal to the request's own scheme, Host and port is same-origin."
        ),
        "mcp.pages-of-other-ports": Promise(
            "3", "A page of another loopback port is refused unless it is in ALLOWED_ORIGINS."
        ),
        "mcp.path-with-slash": Promise("3", "{MCP_PATH}/ is served like {MCP_PATH}."),
        "mcp.port-freed": Promise(
            "2", "A listener whose port was taken is tried again each RESCAN_INTERVAL_SEC."
        ),
        "supervisor.full-is-alive": Promise(
            "13", "No number of connections makes the supervisor end an engine."
        ),
        "supervisor.silent-at-once": Promise(
            "9", "A hung engine is answered for within a second, as one that is away."
        ),
        "proxy.long-calls-last": Promise(
            "9", "A call that takes long is not cut because an engine is watched."
        ),
        "record.not-by-time": Promise(
            "14", "The record grows by what people and agents do, not by time."
        ),
        "supervisor.restarts": Promise("9", "The supervisor restarts a dead or hung engine."),
        "proxy.own-listener-wins": Promise(
            "2", "Every connection to 127.0.0.1 reaches the engine's own listener while it is up."
        ),
        "proxy.away": Promise(
            "9", "While the engine is away clients get 503 with an error body within a second."
        ),
        "proxy.backpressure": Promise("9", "A slow reader of a proxied stream fills no memory."),
        "proxy.networks": Promise("9", "Sources outside of ALLOWED_NETWORKS are refused."),
        "proxy.thousand": Promise("9", "A thousand proxied connections work side by side."),
        "proxy.new-addresses": Promise("9", "Addresses that come later are listened on too."),
        "proxy.each-request-named": Promise(
            "9", "A proxied connection carries the peer's address to the audit."
        ),
        "proxy.no-forged-peer": Promise(
            "9", "The header with the peer's address is one that only the supervisor can set."
        ),
        "proxy.token-untouched": Promise("9", "The proxy never invents an Edge-Caller-JWT."),
        "auth.header-is-the-route": Promise(
            "9", "A request that carries Edge-Caller-JWT never falls back to the direct route."
        ),
        "auth.bad-token-answer": Promise(
            "9", "A bad token gets -33001, HTTP 401 and the request's id; never a hint why."
        ),
        "auth.session-owner": Promise("9", "A session opened by one sub is 404 to another."),
        "auth.every-tool": Promise(
            "9", "authorize runs on the command path for every tool, so that none can forget it."
        ),
        "auth.unknown-tool": Promise(
            "9", "On the relay route an unknown tool is -33003 unless tools_allow names it."
        ),
        # 14: two units are two; the owner's word
        "owner.keys-fit": Promise(
            "14", "Keys of bench.yaml are compared as *IDN? tells them and cleaned, in any case."
        ),
        "owner.unseen-keys": Promise(
            "14", "A key that names no unit seen is a doctor warning; bench show exits 1."
        ),
        "units.twins": Promise(
            "14", "One serial number at two hosts is two units, never fail-overs of each other."
        ),
        "units.hosts-resolved": Promise("14", "Hosts are compared after names are resolved."),
        "units.owner-joins": Promise(
            "14", "An owner may join two addresses under one name in INSTRUMENTS."
        ),
        "units.shared-lockout": Promise(
            "14", "A lockout by a shared serial number locks all that tell it."
        ),
        "units.owners-names": Promise(
            "14", "A name that the owner gave is never answered by another unit."
        ),
        # 10: SDK wrappers
        "sdk.tools": Promise("10", "Each spec of a wrapper is a tool <stem>__<spec>."),
        "sdk.path": Promise("8", "A wrapper's call takes the one command path like any command."),
        "sdk.allowed": Promise("9", "Tokens and danger bound a wrapper's tools like any other."),
        "answer.is-its-type": Promise(
            "14", "A value is what its type says; what does not fit is a bad answer."
        ),
        "patterns.linear": Promise(
            "14", "Patterns of files run in linear time, or are refused with their line."
        ),
        "pictures.large": Promise(
            "14", "A picture above 4 MiB is told as a resource only, read by who may take it."
        ),
        "blocks.bounded": Promise(
            "14", "A block is bounded by MAX_BLOCK_MB, held once, and converted off the loop."
        ),
        "sdk.crash": Promise(
            "10", "A crash, a hang or a leak in a vendor library never reaches the engine."
        ),
        "sdk.no-blocking": Promise(
            "10", "While a wrapper hangs the engine answers, and a safe tool of it gets through."
        ),
        "sdk.garbage": Promise("10", "What a vendor library prints harms no answer."),
        "sdk.broken": Promise("10", "A broken wrapper is skipped with a warning and its line."),
        "sdk.library-missing": Promise(
            "10", "One whose vendor library is missing is listed and answers what to install."
        ),
        "sdk.doctor": Promise("10", "doctor has a line for wrappers, and warns of broken ones."),
        "sdk.specs-located": Promise("10", "A fault in MCP_TOOL_SPECS is told with file and line."),
        "sdk.lockout": Promise("8", "Lockout holds for a wrapper as for an instrument."),
        "sdk.stop-all": Promise("7", "Stop all runs the aborts of wrappers, too."),
        "sdk.ends-with-engine": Promise("10", "A worker ends with the engine, a killed one too."),
        "sdk.comes-back": Promise("10", "A wrapper whose file was corrected comes back by itself."),
        "sdk.korad": Promise("10", "A bench supply ships: set, verified by readback, made safe."),
        "sdk.digilent": Promise("10", "A USB oscilloscope, generator and supply ships."),
        "sdk.documented": Promise("10", "The example of docs/sdk-wrappers.md works as it stands."),
    }
)


def promise(promise_id: str) -> pytest.MarkDecorator:
    """Mark a test as one that holds that promise."""
    if promise_id not in PROMISES:
        message = f"{promise_id} is no promise of tests/promises.py"
        raise KeyError(message)
    return pytest.mark.promise(promise_id)
