import pytest

from edged.clock import SystemClock
from edged.transports.link import LinkLost
from edged.transports.tcp import hislip_error, vxi11_error
from edged.transports.visa import VisaLibrary
from tests.promises import promise


@promise("line.wire-errors")
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "syntax error"),
        (3, "such as inst0 or gpib0,5"),
        (4, "has restarted"),
        (9, "close other programs' links"),
        (11, "end the program that holds the lock"),
        (15, "I/O timeout"),
        (17, "look at the cable"),
        (29, "another program may hold it"),
        (99, "an error of its own"),
    ],
)
def test_a_vxi_11_error_says_what_it_is_and_its_number(number: int, words: str) -> None:
    told = vxi11_error(number)
    assert words in told
    assert told.endswith(f"(VXI-11 error {number})")


@promise("line.wire-errors")
def test_a_hislip_error_says_what_it_is_its_number_and_the_server_s_own_text() -> None:
    assert "no more clients" in hislip_error(4, "", is_fatal=True)
    assert hislip_error(4, "", is_fatal=False).startswith("the message was too large")
    assert hislip_error(200, "vendor", is_fatal=False).endswith('(HiSLIP error 200, "vendor")')


@promise("line.wire-errors")
@pytest.mark.parametrize("road", ["TCPIP::127.0.0.3::INSTR", "TCPIP::127.0.0.3::hislip0::INSTR"])
def test_what_cannot_be_connected_is_called_as_its_owner_typed_it(road: str) -> None:
    # 127.0.0.3: nothing of this machine listens there at the ports that are nobody's choice.
    visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
    link = visa.open_link(road)
    try:
        with pytest.raises(LinkLost) as lost:
            link.open(2)
    finally:
        link.release()
        visa.close()
    told = str(lost.value)
    assert road in told
    assert not any(word in told for word in ("SOCKET", "::111", "4880", "Errno"))
