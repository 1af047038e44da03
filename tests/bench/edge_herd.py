"""Many simulated edges in one process, each with a connection of its own to the NATS server.

They announce themselves every ten seconds, each at its own moment, and answer every request with
one tool result: enough to see what a front and a broker carry.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from edged.relay.announcement import EVERY_S, here_subject
from edged.relay.envelope import (
    Alive,
    AnswerEnd,
    BadEnvelopeError,
    Data,
    Envelope,
    Head,
    Open,
    decode,
    down_subject,
    encode,
    up_subject,
)

UNITS = 10


def word(number: int, turn: int) -> bytes:
    """An announcement of some 3 kB; another one each turn."""
    units = [
        {
            "id": f"usb-{number}-{unit}",
            "alias": f"unit{unit}",
            "manufacturer": "Rigol Technologies",
            "model": ("DP832", "DS1054Z", "DG1022Z", "DL3021")[unit % 4],
            "instrument_class": ("power_supply", "oscilloscope", "generator", "load")[unit % 4],
            "serial": f"DP8A{number:06d}{unit:03d}",
            "state": "ready",
            "used_by": f"claude-code 2.1 for ada at 10.0.0.{turn % 250}" if unit % 3 else None,
            "lease": {"who": "ada", "purpose": "noise", "expires_ms": 1_790_000_000_000}
            if unit == 1
            else None,
            "is_in_use": unit == 2,
        }
        for unit in range(UNITS)
    ]
    told = {
        "version": "1.0.0",
        "units": units,
        "runs": [],
        "lockouts": [],
        "page": f"http://10.0.{number // 250}.{number % 250}:8767/bench",
        "metrics": f"10.0.{number // 250}.{number % 250}:8767/metrics",
    }
    return json.dumps(told, separators=(",", ":")).encode()


class Herd:
    """All of them.

    Args:
        port: of the NATS server.
        count: how many edges: ``edge-0`` and on.
        changes: each announcement says something new; else all say the same for ever.
    """

    def __init__(self, port: int, count: int, *, changes: bool = True) -> None:
        self._port = port
        self._count = count
        self.changes = changes
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.announced = 0
        self.announced_bytes = 0
        self.answered = 0

    async def start(self) -> None:
        for number in range(self._count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            await reader.readline()  # INFO
            edge = f"edge-{number}"
            options = {"verbose": False, "pedantic": False, "headers": True, "name": edge}
            writer.write(b"CONNECT %b\r\n" % json.dumps(options).encode())
            writer.write(b"SUB %b 1\r\n" % down_subject(edge).encode())
            self._writers.append(writer)
            self._tasks.append(asyncio.create_task(self._listen(edge, reader, writer)))
            self._tasks.append(asyncio.create_task(self._announce(number, writer)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    async def _announce(self, number: int, writer: asyncio.StreamWriter) -> None:
        turn = 0
        self._say(number, turn, writer)
        await asyncio.sleep(EVERY_S * number / self._count)
        while True:
            turn += self.changes
            self._say(number, turn, writer)
            await asyncio.sleep(EVERY_S)

    def _say(self, number: int, turn: int, writer: asyncio.StreamWriter) -> None:
        data = word(number, turn)
        self.announced += 1
        self.announced_bytes += len(data)
        _publish(writer, here_subject(f"edge-{number}"), data)

    async def _listen(
        self, edge: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                data = await reader.readexactly(int(line.split()[-1]) + 2)
                self._hear(edge, data[:-2], writer)

    def _hear(self, edge: str, data: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            opened = decode(data)
        except BadEnvelopeError:
            return
        if not isinstance(opened, Open):
            return
        self.answered += 1
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT}).encode()
        headers = (("content-type", "application/json"),)
        answers: tuple[Envelope, ...] = (
            Alive(exchange=opened.exchange, front=opened.front),
            Head(exchange=opened.exchange, status=200, headers=headers),
            Data(exchange=opened.exchange, number=0, data=body),
            AnswerEnd(exchange=opened.exchange, number=1, is_whole=True),
        )
        for answer in answers:
            _publish(writer, up_subject(edge, opened.front, opened.exchange), encode(answer))


RESULT: dict[str, Any] = {
    "content": [],
    "structuredContent": {"is_confirmed": True, "took_ms": 12, "instruments": [], "rows": []},
}


def _publish(writer: asyncio.StreamWriter, subject: str, data: bytes) -> None:
    writer.write(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(data), data))
