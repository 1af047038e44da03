"""``edged probe`` and ``edged profile new`` on every kind of wire, and where nobody is."""

from __future__ import annotations

import json
import shlex
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.cli.main import main
from edged.transports import reach
from edged_author import wire_talk
from tests.bench.addressed_units import pair
from tests.bench.engine import Engine, running_engine
from tests.bench.pty_unit import PtyUnit, on_a_pty
from tests.bench.sim_bench import SimBench, running_bench
from tests.promises import promise

WIRES = {
    "sock": "socket",
    "vxi": "vxi11",
    "his": "hislip",
    "ser": "serial",
    "pro": "prologix",
}
LATE_S = 20.0
"""What a loaded machine adds to what docs/promises.md says."""
NAME = "ACME,P1,42,1.0"
# A verb is a program: what it has open at its end the system closes.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimBench]:
    flags = [word for name, kind in WIRES.items() for word in ("--transport", f"{name}={kind}")]
    orders = ",".join(f"{name}=generic_scpi" for name in WIRES)
    with running_bench("--instruments", orders, *flags) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in, of a machine that has nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGED_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("EDGED_PROFILE_DIRS", f"[{tmp_path}]")
    monkeypatch.setenv("EDGED_BENCH_FILE", str(tmp_path / "bench.yaml"))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a verb prints as JSON when all is well."""
    assert main([*words, "--json"]) == 0, capsys.readouterr()
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@promise("profile-new.harmless")
@pytest.mark.parametrize("name", WIRES)
def test_a_draft_of_every_wire_is_clean_and_nothing_else_was_sent(
    bench: SimBench, place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    began, since = time.monotonic(), bench.mark()
    met = said(capsys, "profile", "new", "--from", bench.address(name))
    assert time.monotonic() - began < 15 + LATE_S
    assert (met["error_query"], met["acknowledge"]) == ("SYST:ERR?", None)
    assert len(met["headers"]) > 3
    assert met["unknown"] == []
    assert main(["profile", "lint", str(place / met["file"])]) == 0
    assert "all clean" in capsys.readouterr().err
    sent = set(bench.received(name, since))
    assert {"*IDN?", "SYST:ERR?"} <= sent
    assert sent <= {"*IDN?", "*CLS", "EDGED:NONE", "SYST:ERR?", "SYST:HELP:HEAD?"}
    errors = bench.state(name).get("errors", [])
    assert not errors


@promise("probe.finds")
@pytest.mark.parametrize("name", WIRES)
def test_probe_prints_a_line_for_a_profile_and_what_to_do_next(
    bench: SimBench, place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["probe", bench.address(name)]) == 0
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("connection: {")]
    assert ("write_termination" in line) is (name in {"sock", "ser"})
    (following,) = [line for line in printed.splitlines() if "# Next: " in line]
    words = shlex.split(following.partition("# Next: edged ")[2])
    # Line ends and times are the usual ones, which need not be given; a busy machine takes longer.
    assert "read_termination" not in following
    is_slow = "timeout_ms: 2000" not in line
    assert ("timeout_ms" in following) is is_slow
    assert ("--connection" in words) is (is_slow or name == "ser")
    assert main([*words, "--output", str(place / "draft.yaml")]) == 0
    assert main(["profile", "lint", str(place / "draft.yaml")]) == 0


@promise("profile-new.soon")
def test_a_draft_is_moved_to_where_profiles_are_looked_for_before_it_is_checked(
    bench: SimBench,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["profile", "new", "--from", bench.address("sock"), "--key", "acme"]
    assert main([*words, "--output", str(place / "acme.yaml")]) == 0
    assert "Next: edged profile lint acme\n" in capsys.readouterr().out
    monkeypatch.setenv("EDGED_PROFILE_DIRS", f"[{place / 'mine'}]")
    assert main([*words, "--output", str(place / "acme2.yaml")]) == 0
    where = f"{place / 'mine'} (make it: it is not there yet)"
    assert f"Next: move it to {where}, then edged profile lint acme\n" in capsys.readouterr().out


@promise("probe.finds")
def test_an_adapter_that_another_has_for_a_moment_is_waited_for(
    bench: SimBench,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = bench.address("pro")
    port = int(address.split("::")[2])
    leaving: list[threading.Timer] = []

    def knock(_address: str, _clock: object) -> None:
        """As the real one, but the adapter sees its end only later."""
        held = socket.create_connection(("127.0.0.1", port))
        held.sendall(b"++ver\n")
        assert held.recv(64)
        leaving.append(threading.Timer(0.3, held.close))
        leaving[0].start()

    monkeypatch.setattr(wire_talk, "knock", knock)
    assert main(["probe", address]) == 0, capsys.readouterr().err
    leaving[0].join()


@promise("probe.finds")
@promise("probe.harmless")
@pytest.mark.parametrize(
    ("takes", "ends", "baud_rate"),
    [
        (b"\n", "\n", 9600),
        (b"\r", "\r\n", 19_200),
        (b"\r\n", "\r", 115_200),
        (b"\r", "\r", 38_400),
        (b"\n", "\n\r", 9600),  # GW Instek GDM-8251A: libsigrok issue 70
    ],
)
def test_probe_finds_the_speed_and_line_ends_of_a_serial_port_within_a_minute(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    takes: bytes,
    ends: str,
    baud_rate: int,
) -> None:
    with on_a_pty(PtyUnit({"*IDN?": NAME}, takes, ends, baud_rate)) as unit:
        found = said(capsys, "probe", unit.address)
    assert found["took_s"] < 60 + LATE_S
    assert found["answer"] == NAME
    wire = found["connection"]
    assert (wire["baud_rate"], wire["data_bits"], wire["parity"]) == (baud_rate, 8, "none")
    assert wire["write_termination"].encode() == takes
    assert wire["read_termination"] == ends
    assert set("\n".join(unit.heard).split()) == {"*IDN?"}
    assert place.is_dir()


def test_probe_finds_that_an_instrument_needs_rest(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = PtyUnit({"VERSION": "JULABO F25"}, b"\r", "\r\n", 9600, rest_s=0.06)
    with on_a_pty(unit):
        found = said(
            capsys, "probe", unit.address, "--ask", "VERSION",
            "--connection", "{baud_rate: 9600, data_bits: 8, parity: none, stop_bits: 1}",
        )  # fmt: skip
    assert 100 <= found["connection"]["min_gap_ms"] <= 400
    assert set("\n".join(unit.heard).split()) == {"VERSION"}
    assert place.is_dir()


@promise("profile-new.soon")
@pytest.mark.parametrize("verb", [["probe"], ["profile", "new", "--from"]])
@pytest.mark.parametrize("road", ["{port}::SOCKET", "hislip0,{port}::INSTR", "{port}"])
def test_a_refused_port_is_told_at_once_with_the_doors_that_are_open(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: list[str],
    road: str,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_door, socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        port = shut.getsockname()[1]
        other = open_door.getsockname()[1]
        roads = {**reach.OTHER_DOORS, other: ("a door", f"TCPIP::{{host}}::{other}::SOCKET")}
        monkeypatch.setattr(reach, "OTHER_DOORS", roads)
        where = road.format(port=port)
        address = f"TCPIP::127.0.0.1::{where}"
        if where.isdigit():
            address = f"TCPIP::127.0.0.1,{port}::inst0::INSTR"
        assert main([*verb, address]) == 1
    told = capsys.readouterr().err
    assert f"port {port} at 127.0.0.1 refuses the connection" in told
    assert f"TCPIP::127.0.0.1::{other}::SOCKET" in told
    assert "Errno" not in told
    assert place.is_dir()


@promise("profile-new.soon")
def test_the_test_of_a_profile_tells_a_refused_port_as_soon(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "acme.yaml").write_text(
        "format: 1\nprofile_key: acme\nmanufacturer: A\nmodel: B\ninstrument_class: other\n"
        "source: none\nmatch: {idn: ACME}\ncommands: {who: {description: Who., scpi: '*IDN?'}}\n"
    )
    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        address = f"TCPIP::127.0.0.1::{shut.getsockname()[1]}::SOCKET"
        assert main(["profile", "test", "acme", "--address", address]) == 1
    assert "refuses the connection" in capsys.readouterr().err


@promise("profile-new.soon")
def test_the_port_mapper_s_own_port_is_nothing_that_anybody_typed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 127.0.0.3: nothing of this machine listens for everybody there, unless it has a port mapper.
    with socket.socket() as free:
        if free.connect_ex(("127.0.0.3", 111)) == 0:
            pytest.fail("this machine has a port mapper: the test needs one without")
    assert main(["profile", "new", "--from", "TCPIP::127.0.0.3::INSTR"]) == 1
    told = capsys.readouterr().err
    assert "the port mapper of VXI-11 at 127.0.0.3 refuses" in told
    assert "111" not in told
    assert "5025" in told
    assert place.is_dir()


@promise("profile-new.soon")
def test_somebody_who_accepts_and_stays_silent_costs_less_than_fifteen_seconds(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"TCPIP::127.0.0.1::{silent.getsockname()[1]}::SOCKET"
        began = time.monotonic()
        met = said(capsys, "profile", "new", "--from", address)
        assert time.monotonic() - began < 15 + LATE_S
    assert "did not answer at all" in met["unknown"][-1]
    assert met["profile_key"] == "unnamed_instrument"
    assert main(["profile", "lint", str(place / met["file"])]) == 0


def test_an_instrument_without_a_name_gets_a_draft_by_the_question_that_its_owner_gives(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = PtyUnit({"VERSION": "JULABO F25 VERSION 5.0"}, b"\r", "\r\n", 9600)
    known = "connection: {baud_rate: 9600, data_bits: 8, parity: none}"
    with on_a_pty(unit):
        words = ["--from", unit.address, "--ask", "VERSION", "--connection", known]
        assert main(["profile", "new", *words]) == 0
    told = capsys.readouterr()
    assert f"{{address: {unit.address}, profile: julabo_f25_version_5_0}}" in told.out
    assert "Only VERSION was sent" in told.err
    draft = (place / "julabo_f25_version_5_0.yaml").read_text()
    assert "identify: {ask: 'VERSION', expect: '^JULABO F[0-9]+ VERSION" in draft
    assert "never_ask_idn: true" in draft
    assert 'write_termination: "\\r"' in draft
    assert main(["profile", "lint", "julabo_f25_version_5_0"]) == 0
    assert set("\n".join(unit.heard).split()) == {"VERSION"}


@pytest.mark.parametrize(("suffix", "before"), [("", '["ADR 6"]'), ("@6", '["ADR {address}"]')])
def test_one_that_must_be_addressed_first_is_met_and_its_draft_says_so(
    place: Path, capsys: pytest.CaptureFixture[str], suffix: str, before: str
) -> None:
    unit, bus = pair()
    known = f"{{baud_rate: 9600, data_bits: 8, parity: none, before: {before}}}"
    with on_a_pty(unit):
        words = ["--from", f"{unit.address}{suffix}", "--ask", "IDN?", "--connection", known]
        assert main(["profile", "new", *words, "--key", "gen"]) == 0, capsys.readouterr()
    draft = (place / "gen.yaml").read_text()
    assert f"before: {before}" in draft
    assert ("shared: true" in draft) is bool(suffix)
    assert "identify: {ask: 'IDN?'" in draft
    assert {told.split()[0] for told in bus.addressings} == {"6"}
    assert bus.supplies["7"].heard == []


@pytest.mark.parametrize("takes", [b"\n", b"\r"])
def test_one_that_understands_idn_only_with_its_own_line_end_is_to_be_named(
    place: Path, capsys: pytest.CaptureFixture[str], takes: bytes
) -> None:
    """An engine asks before it knows any profile."""

    class Strict(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = b""
            while byte := self.rfile.read(1):
                line += byte
                if byte == takes:
                    if line.strip() == b"*IDN?":
                        self.wfile.write(b"ACME,P1,42,1.0\r\n")
                    line = b""

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Strict) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            address = f"TCPIP::127.0.0.1::{server.server_address[1]}::SOCKET"
            assert main(["profile", "new", "--from", address]) == 0
        finally:
            server.shutdown()
    told = f"INSTRUMENTS must name it: [{{address: {address}, profile: acme_p1}}]"
    assert (told in capsys.readouterr().out) is (takes == b"\r")
    draft = (place / "acme_p1.yaml").read_text()
    assert ("INSTRUMENTS must name this profile" in draft) is (takes == b"\r")


def test_a_serial_port_that_takes_not_every_frame_is_searched_to_its_end(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # After all speeds the port has the one that it opened with: noise is taken for no answer.
    with on_a_pty(PtyUnit({}, b"\n", "\n", 9600)) as unit:
        began = time.monotonic()
        assert main(["probe", unit.address]) == 1
        assert time.monotonic() - began < 60 + LATE_S
    assert "No setting that was tried got an answer to *IDN?" in capsys.readouterr().err
    assert place.is_dir()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("probe"), "--instruments", "psu1") as running:
        yield running


def test_what_a_running_engine_has_is_not_probed_and_is_drafted_by_way_of_it(
    engine: Engine, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--state-dir", str(engine.state_dir)]
    assert main(["probe", "psu1", *here]) == 1
    assert "two programs on one line disturb each other" in capsys.readouterr().err
    met = said(capsys, "profile", "new", "--from", "psu1", *here)
    assert met["profile_key"].startswith("rigol")
    assert met["error_query"] == "SYST:ERR?"
    assert "could not be asked for" in met["unknown"][0]
    assert "running engine" in met["unknown"][-1]
    assert place.is_dir()


@promise("profile-new.harmless")
@pytest.mark.parametrize("verb", [["probe"], ["profile", "new", "--from"]])
def test_one_that_its_owner_wants_never_asked_is_asked_by_his_question_alone(
    place: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    unit = PtyUnit({"VERSION": "JULABO F25"}, b"\r", "\r\n", 9600)
    with on_a_pty(unit):
        entry = (
            f"INSTRUMENTS=[{{address: {unit.address}, profile: acme, never_ask_idn: true,"
            " baud_rate: 9600}]"
        )
        assert main([*verb, unit.address, "--set", entry]) == 1
        assert "is never asked *IDN?" in capsys.readouterr().err
        assert unit.heard == []
        assert main([*verb, unit.address, "--set", entry, "--ask", "VERSION"]) == 0
    assert set("\n".join(unit.heard).split()) == {"VERSION"}
    assert place.is_dir()


@pytest.mark.parametrize(("verb", "status"), [(["probe"], 1), (["profile", "new", "--from"], 0)])
def test_an_instrument_that_hangs_up_is_not_said_to_be_silent_alone(
    place: Path, capsys: pytest.CaptureFixture[str], verb: list[str], status: int
) -> None:
    class Once(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Once) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            address = f"TCPIP::127.0.0.1::{server.server_address[1]}::SOCKET"
            assert main([*verb, address]) == status
        finally:
            server.shutdown()
    assert "ended the connection each time" in capsys.readouterr().err
    assert place.is_dir()


@promise("profile-new.harmless")
@pytest.mark.parametrize("ask", ["VERSION\nSTART", "\x05", "\u00dc"])
@pytest.mark.parametrize("verb", [["probe"], ["profile", "new", "--from"]])
def test_a_question_is_one_line_that_a_profile_can_send(
    place: Path, capsys: pytest.CaptureFixture[str], verb: list[str], ask: str
) -> None:
    assert main([*verb, "TCPIP::127.0.0.1::1::SOCKET", "--ask", ask]) == 1
    assert "no profile can send it" in capsys.readouterr().err
    assert place.is_dir()


@pytest.mark.parametrize("key", ["../acme", "bench", "Acme", "a__b", ""])
def test_a_key_that_no_profile_may_have_is_refused_before_anything_is_opened(
    place: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    address = "TCPIP::127.0.0.1::1::SOCKET"
    assert main(["profile", "new", "--from", address, "--key", key]) == 1
    told = capsys.readouterr().err
    assert "profile_key" in told or "No profile may be called" in told
    assert not list(place.parent.glob("*.yaml")) + list(place.glob("*.yaml"))


def test_what_cannot_be_meant_is_told_before_anything_is_opened(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "psu1"]) == 1
    assert "not a VISA address" in capsys.readouterr().err
    address = "TCPIP::127.0.0.1::1::SOCKET"
    assert main(["probe", address, "--connection", "{baudrate: 9600}"]) == 1
    assert "baud_rate" in capsys.readouterr().err
    assert place.is_dir()
