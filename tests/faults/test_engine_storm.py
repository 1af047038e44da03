"""10,000 calls of 8 clients at one engine, three transports, random faults: none is another's.

The units are many, because one that was caught saying more than it was asked is asked slowly.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.engine_process import EngineProcess, engine_process
from tests.promises import promise

UNITS = {"socket": 100, "vxi11": 100, "hislip": 4}
WIRES = {f"{kind}{n}": kind for kind, count in UNITS.items() for n in range(count)}
CLIENTS = 8
CALLS = 10_000
CALLS_A_FAULT = 40
SEED = 20_261_121
FAULTS = (
    ("double", {"count": 1}),
    ("split", {"count": 1, "seconds": 0.002}),
    ("stray", {"count": 1}),
    ("garbage", {"count": 1}),
    ("drop", {"count": 1}),
    ("reset", {"count": 1}),
    ("late", {"count": 1, "seconds": 0.2}),
    ("late", {"count": 1, "seconds": 2.2}),
    ("timeout", {"count": 1}),
    ("refuse", {"seconds": 0.1}),
)
WEIGHTS = (6, 6, 6, 6, 6, 6, 6, 1, 1, 1)


class Storm:
    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        self.told: Counter[str] = Counter()
        self.faults = 0
        self.lock = threading.Lock()

    def client(self, number: int, is_over: threading.Event) -> None:
        chance = random.Random(SEED + number)
        for call in range(CALLS // CLIENTS):
            if is_over.is_set():
                return
            name = chance.choice(list(WIRES))
            nonce = f"{name} {number} {call}"
            answer = self.engine.tool(
                "send_scpi", instrument_id=name, scpi_command=f'DIAG:ECHO? "{nonce}"'
            )
            response = (answer["result"] or {}).get("response")
            if response is None:
                outcome = "error"
            else:
                assert response == nonce, f"{response!r} came for {nonce!r}"
                outcome = "right"
            with self.lock:
                self.told[outcome] += 1

    def trouble(self, is_over: threading.Event) -> None:
        chance = random.Random(SEED)
        while not is_over.is_set():
            due = self.told.total() + CALLS_A_FAULT
            while self.told.total() < due and not is_over.wait(0.002):
                pass
            kind, options = chance.choices(FAULTS, WEIGHTS)[0]
            self.engine.sim("fault", instrument=chance.choice(list(WIRES)), kind=kind, **options)
            self.faults += 1


@promise("line.no-crossed-answer")
def test_ten_thousand_calls_of_eight_clients_are_never_stale_nor_crossed(tmp_path: Path) -> None:
    flags = [word for name, kind in WIRES.items() for word in ("--transport", f"{name}={kind}")]
    orders = ",".join(f"{name}=generic_scpi" for name in WIRES)
    with engine_process(tmp_path, "--instruments", orders, *flags) as engine:
        storm = Storm(engine)
        is_over = threading.Event()
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            troubling = pool.submit(storm.trouble, is_over)
            clients = [pool.submit(storm.client, number, is_over) for number in range(CLIENTS)]
            try:
                for client in clients:
                    client.result()
            finally:
                is_over.set()
            troubling.result()
        engine.sim("clear")
    assert storm.told.total() == CALLS
    assert storm.told["right"] > CALLS // 2, storm.told
    assert storm.faults > 100, (storm.faults, storm.told)
