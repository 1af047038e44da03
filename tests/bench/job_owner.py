"""Whose jobs are, where a test has a line or a mailbox and no actor."""

from __future__ import annotations

import asyncio
from typing import Any

from edged.instruments.mailbox import Job
from edged.transports.link import Wake


class NoActor:
    def __init__(self, wake: Wake, loop: asyncio.AbstractEventLoop) -> None:
        self.tell: Any = wake.teller(loop)

    def forget(self, job: Job) -> None:
        """Nothing of it is kept."""

    def withdraw(self, job: Job) -> None:
        job.is_withdrawn = True
