"""What an engine has in memory of libraries while three instruments are there and nobody asks."""

from __future__ import annotations

import shutil
from pathlib import Path

from edged.profiles.library_cache import warm
from tests.bench.engine_process import REPOSITORY
from tests.bench.loaded_modules import listing_engine, modules_of
from tests.bench.waiting import wait_for

SHIPPED = ("rigol_dp832", "keysight_34461a", "rigol_ds1054z")
NEVER_ASKED_FOR = (
    "cryptography",
    "edged.profiles.loading",
    "jose",
    "matplotlib",
    "nats",
    "numpy",
    "prometheus_client",
    "psutil",
    "pyvisa",
    "rich",
    "ruamel.yaml.main",
    "usb",
    "zeroconf",
)
WITH_THE_FIRST_CALL = ["edged.surfaces.rpc.methods", "jsonschema"]
"""Of the RPC interface."""
WITH_THE_FIRST_RUN = (
    "edged.experiments",
    "edged.operations.experiments",
    "edged.runs.experiments",
    "edged.runs.sequences",
)
PLAN = {"format": 1, "experiment": "look", "roles": {"meter": "dmm1"},
        "steps": [{"read": {"v": "meter.measure_dc_voltage"}}]}  # fmt: skip


def test_an_idle_engine_has_not_loaded_what_nobody_has_asked_for(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    for key in SHIPPED:
        shutil.copy(REPOSITORY / "profiles" / f"{key}.yaml", profiles)
    warm(profiles)
    with listing_engine(tmp_path, config={"PROFILE_DIRS": [str(profiles)]}) as engine:
        loaded = modules_of(engine)
        assert [i["is_connected"] for i in engine.tool("list_instruments")["result"]] == [True] * 3
        wait_for(lambda: modules_of(engine).issuperset(WITH_THE_FIRST_CALL))
        called = modules_of(engine)
        checked = engine.tool("bench__check_experiment", plan=PLAN)
        after = modules_of(engine)
    assert [name for name in sorted(called) if name.startswith(WITH_THE_FIRST_RUN)] == []
    assert checked["result"]["ok"] is True
    assert after.issuperset({"edged.runs.experiments.registry", "edged.operations.experiments"})
    assert sorted(loaded & {*NEVER_ASKED_FOR, *WITH_THE_FIRST_CALL}) == []
    assert sorted(called & {*NEVER_ASKED_FOR, *WITH_THE_FIRST_CALL}) == WITH_THE_FIRST_CALL
    # Or else nothing was listed.
    assert {"edged.transports.raw_socket", "edged.runs.stop_all"} <= loaded
