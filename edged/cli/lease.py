"""``edged lease``: reserve instruments for one caller for a while.

``edged lease reserve psu1 --purpose burn-in`` prints an id. Only callers that give this id
(``--lease``, EDGED_LEASE, the argument ``lease`` of any tool) may write to these instruments. Only
this program can break the lease of somebody else; no tool can.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.cli.shared import output
from edged.cli.shared.options import add_engine_options, connect, this_user
from edged.clock import SystemClock
from edged.errors import ErrorCode, NotFound, Refused
from edged.surfaces.rpc.client import RpcClient

COLUMNS: Final = {
    "instruments": "instruments",
    "who": "who",
    "purpose": "purpose",
    "left": "ends in",
    "lease_id": "lease",
}
OWN: Final = "its id, or an instrument that you reserved with this program"
RESERVED_HERE: Final = "edged lease reserve at "
"""How those who reserved with this program are called."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged lease", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="what is reserved, by whom, and until when")
    reserve = verbs.add_parser("reserve", help="reserve instruments for yourself")
    reserve.add_argument("instruments", nargs="+", help='ids, aliases or serial numbers, or "all"')
    reserve.add_argument(
        "--purpose", default="", help="what for; shown to everybody who is refused"
    )
    renew = verbs.add_parser("renew", help="extend a lease, counted from now")
    renew.add_argument("lease_id", metavar="ID", help=OWN)
    for one in (reserve, renew):
        one.add_argument(
            "--ttl", type=int, metavar="SECONDS", help="30 to 43200; 900 unless it is given"
        )
    release = verbs.add_parser("release", help="end your lease")
    release.add_argument("lease_id", metavar="ID", help=OWN)
    breaking = verbs.add_parser("break", help="end somebody's lease, as the owner of the bench")
    breaking.add_argument(
        "lease_id", metavar="ID", help="its id, or an instrument that it reserves"
    )
    breaking.add_argument("--reason", required=True, help="why; written to the audit log")
    breaking.add_argument("--by", default=this_user(), help="your name (this user)")
    for one in (listing, reserve, renew, release, breaking):
        add_engine_options(one)
    options = parser.parse_args(arguments)
    return {
        "list": _list,
        "reserve": _reserve,
        "renew": _renew,
        "release": _release,
        "break": _break,
    }[options.verb](options)


def _list(options: argparse.Namespace) -> int:
    client = connect(options)
    leases = client.call("leases.list")["leases"]
    return output.put_rows(client, options, leases, COLUMNS, _row, "nothing is reserved")


def _reserve(options: argparse.Namespace) -> int:
    asked: dict[str, Any] = {"instruments": options.instruments, "purpose": options.purpose}
    if options.ttl is not None:
        asked["ttl_s"] = options.ttl
    client = connect(options)
    granted = client.call_tool("leases.reserve", asked)
    return output.show(granted, options, lambda lease: _print_granted(lease, output.namer(client)))


def _renew(options: argparse.Namespace) -> int:
    client = connect(options)
    asked = {"lease_id": _own_id(client, options.lease_id)}
    if options.ttl is not None:
        asked["ttl_s"] = options.ttl
    return output.show(client.call_tool("leases.renew", asked), options, _print_renewed)


def _release(options: argparse.Namespace) -> int:
    client = connect(options)
    asked = {"lease_id": _own_id(client, options.lease_id)}
    return output.show(client.call_tool("leases.release", asked), options, _print_ended)


def _own_id(client: RpcClient, name: str) -> str:
    """The id of the lease that is meant: by itself, or by an instrument that it reserves.

    Raises:
        Refused: LEASED, another program has that instrument.
        NotFound: UNKNOWN_LEASE, nobody has it.
    """
    leases = client.call("leases.list")["leases"]
    if any(lease["lease_id"] == name for lease in leases):
        return name
    called = output.namer(client)
    for lease in leases:
        if called(name) in map(called, lease["instruments"]):
            return _own(lease, name)
    raise NotFound(
        f"There is no lease {name[:64]!r}, nor one of an instrument of that name.",
        code=ErrorCode.UNKNOWN_LEASE,
        remedy="It may have ended: `edged lease list` shows those there are, with their ids.",
    )


def _own(lease: dict[str, Any], name: str) -> str:
    """Its id, where this program reserved it: others only told it to whom they liked."""
    lease_id: str = lease["lease_id"]
    if lease["who"].startswith(RESERVED_HERE):
        return lease_id
    raise Refused(
        f"{name} is reserved by {lease['who']}, not by this program.",
        code=ErrorCode.LEASED,
        remedy=f"If the lease is yours, give its id, which `edged lease list` shows; "
        f"`edged lease break {name} --reason …` ends somebody else's.",
    )


def _break(options: argparse.Namespace) -> int:
    asked = {"lease_id": options.lease_id, "reason": options.reason, "by": options.by}
    return output.put(connect(options).call("leases.break", asked), options, _print_ended)


def _row(lease: Mapping[str, Any], name: output.Name) -> dict[str, Any]:
    left = _left(lease["expires_ms"])
    return {**lease, "instruments": ", ".join(map(name, lease["instruments"])), "left": left}


def _print_granted(lease: dict[str, Any], name: output.Name) -> None:
    units = ", ".join(map(name, lease["instruments"]))
    told = {"instruments": units, "lease_id": lease["lease_id"]}
    output.print_fields({**told, "ends in": _left(lease["expires_ms"])})
    print(f"export EDGED_LEASE={lease['lease_id']}")


def _print_renewed(lease: dict[str, Any]) -> None:
    print(f"it ends in {_left(lease['expires_ms'])}, unless it is used")


def _print_ended(ended: dict[str, Any]) -> None:
    print(f"{', '.join(ended['instruments'])}: no longer reserved by {ended['who']}")


def _left(expires_ms: int) -> str:
    left_s = max(0, round(expires_ms / 1_000 - SystemClock().wall_ms() / 1_000))
    return f"{left_s // 60} min {left_s % 60} s" if left_s >= 60 else f"{left_s} s"
