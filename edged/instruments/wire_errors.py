"""What the numbers of VXI-11 and HiSLIP errors mean, and what to do about each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["hislip_error", "rpc_refusal", "vxi11_error"]


def vxi11_error(number: int) -> str:
    """A device error (VXI-11, table B.2) in words."""
    return f"{VXI11.get(number, 'it reports an error of its own')} (VXI-11 error {number})"


def rpc_refusal(status: int) -> str:
    """Why a remote procedure was not even tried (RFC 5531, accept_stat) in words."""
    return f"{RPC.get(status, 'it does not say why')} (RPC status {status})"


def hislip_error(number: int, text: str, *, is_fatal: bool) -> str:
    """An Error or FatalError message (IVI-6.1, 6.2 and 6.3) in words; ``text`` is the server's."""
    known = HISLIP_FATAL if is_fatal else HISLIP
    meaning = known.get(number, "it reports an error of its own")
    said = f', "{text}"' if text else ""
    return f"{meaning} (HiSLIP {'fatal error' if is_fatal else 'error'} {number}{said})"


VXI11: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "it does not understand the call (syntax error): its VXI-11 server may be of another "
        "version",
        3: "the device is not accessible: check the device name in its address, such as inst0 or "
        "gpib0,5, and that the device behind a gateway is on",
        4: "it does not know this link any more (invalid link identifier): it has restarted or "
        "ended the link",
        5: "it takes no such parameter (parameter error): check the device name in its address",
        6: "its channel is not established: it has ended the link",
        8: "it does not do this (operation not supported)",
        9: "it is out of resources: close other programs' links to it, or switch it off and on",
        11: "another link has locked it: end the program that holds the lock",
        12: "no lock is held by this link",
        15: "its own time limit passed (I/O timeout)",
        17: "its input or output failed (I/O error): look at the cable of the device behind the "
        "gateway",
        21: "the address is invalid: check the device name, such as inst0 or gpib0,5",
        23: "the call was aborted",
        29: "the channel is established already: another program may hold it",
    }
)
RPC: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "it offers no VXI-11 at this port: leave the port out of its address",
        2: "its VXI-11 server is of another version",
        3: "it does not know this procedure",
        4: "it could not read the arguments",
        5: "an error of its own: switch its LAN interface off and on",
    }
)
HISLIP_FATAL: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "it ended the session and does not say why",
        1: "it could not read a message's header",
        2: "the connection was used before both channels were there",
        3: "it takes no such beginning of a session: check the port, and the name in the address, "
        "such as hislip0",
        4: "it takes no more clients: close another program's session to it",
        5: "a secure connection failed: switch encryption off at the instrument",
    }
)
HISLIP: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "it refused a message and does not say why",
        1: "it does not know this type of message",
        2: "it does not know this control code",
        3: "it does not know this vendor's message",
        4: "the message was too large for it: send shorter lines or blocks",
        5: "it rejected how the client authenticates: switch that off at the instrument",
    }
)
