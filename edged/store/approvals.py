"""What was used up of approvals, on disk: a ``requestState`` counts once, after a restart too.

The key that those are made with lies beside the database.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path
from typing import Final

from edged.errors import ErrorCode, Failed
from edged.files import keep_secret
from edged.sharing.request_state import KEY_BYTES
from edged.store.database import Database

KEY_FILE: Final = "approval.key"
DROP_OLD: Final = "DELETE FROM spent_state WHERE until_ms < ?"
SPEND: Final = "INSERT OR IGNORE INTO spent_state (approval_id, until_ms) VALUES (?, ?)"


def keep_key(state_dir: Path) -> bytes:
    """The key of this STATE_DIR, made where there is none; only its owner reads it.

    Raises:
        Failed: STORE_FAILED, it can neither be read nor made.
    """
    path = state_dir / KEY_FILE
    try:
        # After a spoiled key was replaced, what is pending is asked for again.
        return keep_secret(
            path,
            of=lambda held: held if len(held) == KEY_BYTES else b"",
            make=lambda: secrets.token_bytes(KEY_BYTES),
        )
    except OSError as error:
        raise Failed(
            f"{path} cannot be kept: {error.strerror}.", code=ErrorCode.STORE_FAILED
        ) from error


class SpentStates:
    """The questions whose answer was used, until they would have expired."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def spend(self, approval_id: str, until_ms: int, now_ms: int) -> bool:
        """Use one up; false where it was used before. On disk when this returns.

        Raises:
            Failed: STORE_FAILED; it counts as used by nobody, and nothing must be sent.
        """

        def write(connection: sqlite3.Connection) -> bool:
            connection.execute(DROP_OLD, (now_ms,))
            return connection.execute(SPEND, (approval_id, until_ms)).rowcount == 1

        return await self._database.write(write)
