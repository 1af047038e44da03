"""``edged open``: the bench page, in a browser of this computer.

Where the port is open to the network, the address is the network's, so that a phone can use it
(--qr). The page shows the bench and can stop it. With --full the address contains the page's key:
whoever has it can approve and deny calls and break leases there, so give it to nobody else.
"""

from __future__ import annotations

import argparse
import html
import json
import sys
import webbrowser
from collections.abc import Sequence
from typing import Final

from edged.cli.connect import why_loopback
from edged.cli.shared.options import add_engine_options, connect, load, locate
from edged.cli.shared.output import print_json
from edged.config.keys import BenchPage
from edged.errors import Conflict, Failed
from edged.files import remove, write_atomically
from edged.host import LOOPBACK, ExitStatus, netloc_of, reached_at, read_supervisor_file
from edged.surfaces.page import PATH
from edged.surfaces.page.owner import REDIRECT_FILE, keep_page_key

REDIRECT: Final = """<!doctype html>
<meta charset="utf-8">
<title>edged</title>
<script>location.replace({script})</script>
<noscript><a href="{link}">The bench page</a></noscript>
"""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged open", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="include the page's key: approvals can be answered there",
    )
    parser.add_argument("--print", action="store_true", help="print the address, open nothing")
    parser.add_argument("--qr", action="store_true", help="print the address as a QR code, too")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    mode, url, remark = _page(options)
    if options.json:
        print_json({"url": url, "mode": mode, "remark": remark})
        return ExitStatus.OK
    print(url)
    if remark:
        print(f"edged: {remark}", file=sys.stderr)
    if options.qr:
        _print_qr(url)
    if not (options.print or options.qr) and not webbrowser.open(_started_at(url, options)):
        print("edged: no browser could be started here; open the address above.", file=sys.stderr)
    return ExitStatus.OK


def _page(options: argparse.Namespace) -> tuple[str, str, str]:
    """The mode of the page, its address, and what to know of that."""
    told = connect(options).call_tool("get_status").value["mcp"]
    mode = str(told["page"])
    if mode == BenchPage.OFF:
        raise Conflict("BENCH_PAGE is off: there is no page.", remedy="Set it to read or full.")
    if not told["port"]:
        raise Failed(f"The engine has no MCP port: {told['error'] or 'MCP_ENABLED is false.'}")
    if options.full and mode != BenchPage.FULL:
        raise Conflict(
            f"BENCH_PAGE is {mode}: the page shows approvals, but cannot answer them.",
            remedy="Set BENCH_PAGE: full and restart, or answer with edged approve.",
        )
    state_dir = locate(load(options)).path.parent
    bound = read_supervisor_file(state_dir).get("addresses", ())
    host = reached_at(bound)
    remark = why_loopback(bound) if host == LOOPBACK else ""
    key = f"#key={keep_page_key(state_dir)}" if options.full else ""
    return mode, f"http://{netloc_of(host, told['port'])}{PATH}{key}", remark


def _started_at(url: str, options: argparse.Namespace) -> str:
    """What to give to the browser: its command line can be read by every user, so no key is in it.

    With --full that is a file in the state directory, which leads on to the address. Like the key
    beside it, it can only be read by its owner. The next `edged open` and the next start of the
    engine remove it.
    """
    path = locate(load(options)).path.parent / REDIRECT_FILE
    remove(path)
    if not options.full:
        return url
    write_atomically(
        path, REDIRECT.format(script=json.dumps(url), link=html.escape(url)), mode=0o600
    )
    return path.as_uri()


def _print_qr(url: str) -> None:
    # Here: nobody else needs it.
    import segno

    segno.make_qr(url).terminal(compact=True)
