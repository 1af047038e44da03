import pytest

from edged.clock import SystemClock
from edged.errors import Fault
from edged.instruments.line_state import (
    LONGEST_RETRY_S,
    TRANSITIONS,
    LineEvent,
    LineState,
    next_line_state,
    retry_delay_s,
)
from edged.transports.address import TRANSPORTS, Cleaning, Transport
from edged.transports.visa import VisaLibrary


@pytest.mark.parametrize("state", LineState)
@pytest.mark.parametrize("event", LineEvent)
def test_each_cell_is_what_the_table_says_or_raises(state: LineState, event: LineEvent) -> None:
    following = TRANSITIONS[state].get(event)
    if following is None:
        with pytest.raises(Fault):
            next_line_state(state, event)
    else:
        assert next_line_state(state, event) is following


@pytest.mark.parametrize("state", LineState)
def test_a_line_can_be_closed_and_lost_in_every_state(state: LineState) -> None:
    assert next_line_state(state, LineEvent.STOP) is LineState.CLOSED
    lost = next_line_state(state, LineEvent.LOST)
    assert lost is (LineState.CLOSED if state is LineState.CLOSED else LineState.LOST)


def test_a_spoiled_line_does_no_work_before_it_was_cleaned() -> None:
    with pytest.raises(Fault):
        next_line_state(LineState.RECOVERING, LineEvent.WORK)


def test_raw_sockets_are_never_cleared() -> None:
    assert Transport.SOCKET.cleaning is Cleaning.REOPEN
    assert {transport.cleaning for transport in Transport} == set(Cleaning)


def test_every_transport_has_one_row_and_every_row_a_link() -> None:
    assert set(TRANSPORTS) == set(Transport)
    library = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    addresses = {
        "TCPIP::127.0.0.1::5025::SOCKET": "RawSocketLink",
        "TCPIP::127.0.0.1::INSTR": "Vxi11Link",
        "TCPIP::127.0.0.1::hislip0::INSTR": "HislipLink",
        "USB0::0x1AB1::0x0E11::DP8A::INSTR": "UsbtmcLink",
        "ASRL/dev/ttyUSB0::INSTR": "SerialLink",
        "GPIB0::7::INSTR": "MessageLink",
    }
    for address, name in addresses.items():
        link = library.open_link(address)
        assert type(link).__name__ == name
        link.release()
    library.close()


def test_waits_grow_and_are_bounded() -> None:
    delays = [retry_delay_s(failures) for failures in range(1, 1000)]
    assert delays == sorted(delays)
    assert delays[0] > 0.1
    assert delays[-1] == LONGEST_RETRY_S
