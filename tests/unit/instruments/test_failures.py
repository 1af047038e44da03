"""Why a line is not there, and what helps."""

from __future__ import annotations

import errno
import socket

import pytest

from edged.instruments.failures import lost_remedy
from edged.transports.link import LinkLost, translated


@pytest.mark.parametrize(
    ("raised", "why", "remedy"),
    [
        (OSError(errno.EHOSTUNREACH, "No route"), "there is no route to it", "own network"),
        (OSError(errno.ENETUNREACH, "Unreachable"), "there is no route to it", "own network"),
        (socket.gaierror(-2, "Unknown"), "its host name is not known", "name in INSTRUMENTS"),
        (ConnectionRefusedError(), "nothing listens there", "Check its power and cable"),
    ],
)
def test_the_remedy_of_a_lost_line_is_that_of_its_reason(
    raised: OSError, why: str, remedy: str
) -> None:
    with pytest.raises(LinkLost) as lost, translated("connecting"):
        raise raised
    assert lost.value.why.startswith(why)
    assert remedy in lost_remedy(f"connecting failed: {lost.value.why}")
