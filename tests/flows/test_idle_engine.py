"""What an engine has in memory of libraries while three instruments are there and nobody asks."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from edged.profiles.library_cache import warm
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.waiting import wait_for

# Tells at SIGUSR1 which modules it has loaded; otherwise `edged`.
TELLING = """
import os, pathlib, signal, sys
def tell(*_):
    place = pathlib.Path(os.environ["TELL_MODULES"])
    draft = place.with_suffix(".draft")
    draft.write_text("\\n".join(name for name, module in sys.modules.items() if module))
    draft.replace(place)
signal.signal(signal.SIGUSR1, tell)
from edged.cli.main import main
sys.exit(main())
"""
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
    "usb",
    "zeroconf",
)
WITH_THE_FIRST_CALL = "jsonschema"


def test_an_idle_engine_has_not_loaded_what_nobody_has_asked_for(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    for key in SHIPPED:
        shutil.copy(REPOSITORY / "profiles" / f"{key}.yaml", profiles)
    warm(profiles)
    told = tmp_path / "modules"
    with engine_process(
        tmp_path,
        config={"PROFILE_DIRS": [str(profiles)]},
        environment={"TELL_MODULES": str(told)},
        command=(sys.executable, "-c", TELLING),
    ) as engine:
        loaded = modules_of(engine, told)
        assert [i["is_connected"] for i in engine.tool("list_instruments")["result"]] == [True] * 3
        wait_for(lambda: WITH_THE_FIRST_CALL in modules_of(engine, told))
        called = modules_of(engine, told)
    assert sorted(loaded & {*NEVER_ASKED_FOR, WITH_THE_FIRST_CALL}) == []
    assert sorted(called & {*NEVER_ASKED_FOR, WITH_THE_FIRST_CALL}) == [WITH_THE_FIRST_CALL]
    # Or else nothing was told.
    assert {"edged.transports.raw_socket", "edged.runs.stop_all"} <= loaded


def modules_of(engine: EngineProcess, told: Path) -> set[str]:
    told.unlink(missing_ok=True)
    engine.process.send_signal(signal.SIGUSR1)
    wait_for(told.exists)
    return set(told.read_text().split())
