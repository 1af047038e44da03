"""Two supplies that tell one serial number at two hosts, before a real engine: two units, always.

And the owner's word about them: it holds for both, and no name comes to mean the other.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench import command_line
from tests.bench.command_line import NO_PROFILES
from tests.bench.engine import Engine, running_engine
from tests.bench.sim_bench import SimBench, running_bench
from tests.bench.waiting import wait_for
from tests.promises import promise

ON = {"channel": 1}
BENCH = """\
format: 1
{serial}:
  alias: main
  limits: {{set_voltage: {{voltage: {{max: 5}}}}}}
gone: {{deny: [output_on]}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    bench: SimBench
    engine: Engine
    serial: str
    ids: dict[str, str]

    def run(self, name: str, command: str, **parameters: Any) -> dict[str, Any]:
        """execute_command on what is called so; ``one`` and ``other`` by their ids."""
        told = self.engine.tool(
            "execute_command",
            instrument_id=self.ids.get(name, name),
            command_name=command,
            parameters=parameters,
        )
        return dict(told)

    def is_on(self, name: str) -> bool:
        answer = self.run(name, "get_output", channel=1)
        assert not answer["is_error"], answer
        return answer["result"]["data"] is True

    def edged(
        self, *words: str, status: int = 0, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        file = str(self.engine.state_dir.parent / "bench.yaml")
        where = ("--state-dir", str(self.engine.state_dir))
        done = command_line.edged(*words, *where, environ={"EDGED_BENCH_FILE": file, **environ})
        assert done.returncode == status, done.stderr + done.stdout
        return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("twins")
    with running_bench("--instruments", "one=rigol_dp832") as bench:
        serial = bench.serial("one")
        bench.add("other", "rigol_dp832", serial=serial, at="127.0.0.2")
        bench.add("spelling", "rigol_dp832", serial="SPARE")
        (directory / "bench.yaml").write_text(BENCH.format(serial=f"'s/n: {serial.lower()}'"))
        entries = [{"address": bench.address(name)} for name in ("one", "other", "spelling")]
        never = {"address": "TCPIP::127.0.0.9::1::SOCKET", "name": "spare"}
        config = {"INSTRUMENTS": [*entries, never], "GONE_AFTER_SEC": 1}
        with running_engine(directory, sim=False, config=config) as engine:
            wait_for(
                lambda: engine.tool("get_status")["result"]["instrument_count"] == len(entries)
            )
            ids = {name: bench.address(name) for name in ("one", "other", "spelling")}
            yield Place(bench, engine, serial, ids)


@promise("units.twins")
def test_they_are_two_with_a_warning_and_the_owners_limits_hold_for_both(place: Place) -> None:
    listed = {i["id"]: i for i in place.engine.tool("list_instruments")["result"]}
    for name, twin in (("one", "other"), ("other", "one")):
        shown = listed[place.ids[name]]
        assert shown["alternatives"] == []
        assert f"{place.ids[twin]} have the same serial number {place.serial}" in shown["warning"]
        told = place.run(name, "set_voltage", channel=1, voltage=6)
        assert told["is_error"], told
        assert not place.run(name, "set_voltage", channel=1, voltage=4)["is_error"]
    doctor = json.loads(place.edged("doctor", "--json", **NO_PROFILES).stdout)
    lines = {line["check"]: line for line in doctor["checks"]}
    assert "have the same serial number" in lines["discovery"]["found"]


@promise("units.owners-names")
@pytest.mark.parametrize("name", ["main", "SERIAL", "spare", "Spare"])
def test_a_name_that_is_not_one_units_reaches_none_on_any_road(place: Place, name: str) -> None:
    """``spare`` is what the owner calls an address where nothing was met; a unit tells SPARE."""
    called = place.serial if name == "SERIAL" else name
    marks = place.bench.mark()
    refused = [
        place.run(called, "set_voltage", channel=1, voltage=1),
        place.engine.tool("send_scpi", instrument_id=called, scpi_command=":OUTP CH1,ON"),
        place.engine.tool(
            "start_sweep",
            instrument_id=called,
            command_name="set_voltage",
            target_value=1,
            sweep_rate=1,
        ),
        place.engine.tool(
            "start_sweep",
            instrument_id=place.ids["one"],
            command_name="set_voltage",
            target_value=1,
            sweep_rate=1,
            measure=[
                {
                    "instrument_id": called,
                    "command_name": "measure_voltage",
                    "parameters": {"channel": 1},
                }
            ],
        ),
        place.engine.tool("execute_sequence", instrument_id=called, sequence_name="voltage_point"),
        place.engine.tool("get_capabilities", instrument_id=called),
    ]
    assert [told["is_error"] for told in refused] == [True] * len(refused), refused
    assert [told["error"]["code"] for told in refused] == ["unknown_instrument"] * len(refused)
    for station in ("one", "other", "spelling"):
        heard = place.bench.received(station, marks)
        assert [line for line in heard if line != "*IDN?"] == []
    if name.casefold() == "spare":
        done = place.edged("lockout", called, "--reason", "hands", status=1)
        assert "the name that the owner of this bench gave" in done.stderr


@promise("units.shared-lockout")
def test_a_lockout_by_their_number_holds_for_both(place: Place) -> None:
    done = place.edged("lockout", place.serial, "--reason", "hands", "--by", "anna")
    assert place.ids["one"] in done.stdout
    assert place.ids["other"] in done.stdout
    for name in ("one", "other"):
        assert place.run(name, "output_on", **ON)["error"]["code"] == "locked_out"
        assert not place.run(name, "output_off", **ON)["is_error"]
    assert not place.run("spelling", "output_off", **ON)["is_error"]
    place.edged("lockout", place.ids["other"], "--clear")
    assert place.edged("lockout").stdout.strip() == "nothing is locked out"


@promise("units.twins")
def test_stop_all_reaches_both(place: Place) -> None:
    for name in ("one", "other"):
        assert not place.run(name, "output_on", **ON)["is_error"]
        assert place.is_on(name)
    told = place.engine.stop_all()
    states = {i["instrument_id"]: i["state"] for i in told["instruments"]}
    assert (states[place.ids["one"]], states[place.ids["other"]]) == ("confirmed", "confirmed")
    assert not place.is_on("one")
    assert not place.is_on("other")


@promise("units.twins")
def test_when_the_first_drops_nothing_for_it_goes_to_the_other(place: Place) -> None:
    assert not place.run("other", "output_on", **ON)["is_error"]
    place.bench.fault("one", "refuse")
    mark = place.bench.mark()
    try:
        for command, parameters in (
            ("set_voltage", {"channel": 1, "voltage": 2}),
            ("output_off", ON),
            ("measure_voltage", ON),
        ):
            assert place.run("one", command, **parameters)["is_error"]
        wait_for(lambda: not _listed(place, "one")["is_connected"])
        assert place.run("one", "output_off", **ON)["is_error"]
        assert place.run("main", "output_off", **ON)["is_error"]
        heard = place.bench.received("other", mark)
        assert [line for line in heard if line.startswith((":OUTP", ":SOUR", ":MEAS"))] == []
        assert place.is_on("other")
    finally:
        place.bench.clear("one")
    wait_for(lambda: _listed(place, "one")["is_connected"])
    place.engine.tool("bench__stop_all")


@promise("owner.unseen-keys")
def test_bench_show_names_a_key_that_no_unit_fits_and_ends_with_1(place: Place) -> None:
    done = place.edged("bench", "show", status=1)
    assert (
        "bench.yaml:5:7: no unit that has answered since the engine started matches 'gone'"
        in done.stderr
    )
    assert done.stderr.count("no unit that has answered") == 1
    told = json.loads(place.edged("bench", "show", place.serial, "--json", status=1).stdout)
    assert [key["key"] for key in told["unseen"]] == ["gone"]
    assert [unit["profile"] for unit in told["units"]] == ["rigol_dp832"]
    doctor = json.loads(place.edged("doctor", "--json", **NO_PROFILES).stdout)
    lines = {line["check"]: line for line in doctor["checks"]}
    found = [line for line in lines.values() if "matches 'gone'" in line["found"]]
    assert [line["verdict"] for line in found] == ["WARN"]


def _listed(place: Place, name: str) -> dict[str, Any]:
    listed = place.engine.tool("list_instruments")["result"]
    return next(dict(i) for i in listed if i["id"] == place.ids[name])
