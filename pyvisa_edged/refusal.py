"""What a program is told: a ``VisaIOError`` with VISA's code and the bench's own sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyvisa import errors
from pyvisa.constants import StatusCode

CODES: Mapping[str, StatusCode] = {
    "timeout": StatusCode.error_timeout,
    "disconnected": StatusCode.error_connection_lost,
    "unknown_session": StatusCode.error_connection_lost,
    "preempted": StatusCode.error_abort,
    "cancelled": StatusCode.error_abort,
    "busy": StatusCode.error_resource_busy,
    "leased": StatusCode.error_resource_locked,
    "locked_out": StatusCode.error_resource_locked,
    "sweep_conflict": StatusCode.error_resource_locked,
    "unknown_lease": StatusCode.error_resource_locked,
    "unknown_instrument": StatusCode.error_resource_not_found,
    "bad_arguments": StatusCode.error_invalid_parameter,
    "bad_scpi": StatusCode.error_invalid_format,
    "bad_answer": StatusCode.error_io,
    "internal": StatusCode.error_system_error,
    "store_failed": StatusCode.error_system_error,
}
"""By the code of the bench; any other is a refusal, ``VI_ERROR_NO_PERM``."""


class EdgedVisaError(errors.VisaIOError):
    """An error of VISA's that says in a sentence what the bench has to say.

    Attributes:
        reason: the bench's own code (``leased``, ``locked_out``, ``raw_scpi_restricted``…).
        scpi: the number under which it stands in this program's error queue; 0 where it does not.
        details: what the bench tells besides.
    """

    def __init__(
        self,
        error_code: int,
        sentence: str = "",
        reason: str = "",
        scpi: int = 0,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(error_code)
        self.reason = reason
        self.scpi = scpi
        self.details = dict(details or {})
        if sentence:
            self.description = sentence
            self.args = (f"{self.abbreviation} ({self.error_code}): {sentence}",)

    def __reduce__(self) -> tuple[Any, ...]:
        """What makes it again, in another process."""
        made_of = (self.error_code, self.description, self.reason, self.scpi, self.details)
        return type(self), made_of


def told(message: str, data: Mapping[str, Any]) -> EdgedVisaError:
    """What a JSON-RPC error of the bench is."""
    reason = str(data.get("code", ""))
    number = data.get("scpi", 0)
    return EdgedVisaError(
        CODES.get(reason, StatusCode.error_no_permission),
        message,
        reason,
        number if isinstance(number, int) else 0,
        data,
    )


def connection_lost(why: str) -> EdgedVisaError:
    """The bench cannot be reached, or was not until the answer came."""
    return EdgedVisaError(StatusCode.error_connection_lost, why, "disconnected")


def not_offered(what: str) -> EdgedVisaError:
    """It is no part of this backend."""
    return EdgedVisaError(
        StatusCode.error_nonsupported_operation, f"{what} is not offered by edged.", "not_offered"
    )
