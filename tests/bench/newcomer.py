"""The pages' path for somebody new, with instrument servers and simulators that others wrote.

docs/add-your-instrument.md is followed as it stands: probe, draft, lint, test, a measurement. Only
what the page says is the instrument's own is put in the place of its example's: the address, the
question, the profile's name and commands.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.foreign_servers import FOREIGN, ForeignServer, running
from tests.bench.page_reader import PAGE, Reader

MINUTES = 5.0
MOST_COMMANDS = 12
SECTIONS = dict(re.findall(r"^## (\d)\. [^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = re.compile(r"(```yaml\n)(?:(?!```).)*(```)", re.DOTALL)
SHOWN = re.compile(r"```text\n(?:(?!```).)*```\n", re.DOTALL)
"""What the page's own instrument says."""
SAYS_IDN = [name for name, server in FOREIGN.items() if not server.ask]
LEWIS = [name for name in FOREIGN if name.endswith("-lewis")]
OTHERS = [name for name in FOREIGN if name not in {*SAYS_IDN, *LEWIS}]


def only(text: str, *wanted: str) -> str:
    """Of lines that call a tool, those that the instrument has."""
    calls = re.compile(r"^edged call .*\n", re.MULTILINE)
    first, *_ = calls.findall(text)
    kept = "".join(f"edged call {line}\n" for line in wanted)
    return calls.sub("", text.replace(first, "%calls%\n", 1)).replace("%calls%\n", kept)


def calls_of(server: ForeignServer) -> tuple[str, ...]:
    return (
        f"{server.key}__{server.measured[0]}",
        f"{server.key}__{server.told}",
        f"{server.key}__{server.refused}  # refused: over the maximum",
    )


def path_of_scpi(server: ForeignServer, address: str) -> str:
    """Sections 1 to 3: its tools are called at the end of section 1."""
    first, commands, check = (SECTIONS[number] for number in "123")
    # What the page tries without the real instrument.
    check, _, _ = check.partition("A profile that has a simulated instrument")
    first = COMMANDS.sub(lambda found: found[1] + server.commands + found[2], first)
    # The commands of a foreign instrument are all there from the start.
    text = SHOWN.sub("", first + COMMANDS.sub("", commands) + check)
    text = only(text, *calls_of(server))
    return text.replace("TCPIP::127.0.0.1::50250::SOCKET", address).replace(
        "example_gx100", server.key
    )


def path_of_no_scpi(server: ForeignServer, address: str) -> str:
    """Section 5, after the terminal that stands for the instrument."""
    _, _, text = SECTIONS["5"].partition("edged sim --instruments")
    _, _, text = text.partition("```\n")
    acknowledge = re.compile(r"^sed -i .*\n", re.MULTILINE)
    (line,) = acknowledge.findall(text)
    said = line.replace("^OK$", server.acknowledge) if server.acknowledge else ""
    text = text.replace(line, said)
    text = COMMANDS.sub(lambda found: found[1] + server.commands + found[2], text)
    text = only(text, *calls_of(server))
    return text.replace("TCPIP::127.0.0.1::50251::SOCKET", address).replace(
        "--ask TYPE", f"--ask '{server.ask}'"
    )


def _walk(
    folder: Path, name: str, path: Callable[[ForeignServer, str], str]
) -> tuple[str, float, int]:
    """Follow the page for one server; what it measured then, minutes and commands."""
    server = FOREIGN[name]
    place, home = folder / "server", folder / "home"
    place.mkdir()
    home.mkdir()
    with running(server, place) as address, Reader.at_home(home) as reader:
        began = time.monotonic()
        reader.follow(path(server, address))
        minutes = (time.monotonic() - began) / 60
        commands = reader.commands
        measured = reader.run(f"edged call {server.key}__{server.measured[0]}").stdout
        state = reader.run("edged instruments --json").stdout
    assert '"ready"' in state
    return measured, minutes, commands


def follow(name: str, folder: Path, record: Callable[[str, object], None]) -> None:
    """A newcomer's path with one server: few commands, a right measurement, within minutes."""
    server = FOREIGN[name]
    path = path_of_no_scpi if server.ask else path_of_scpi
    measured, minutes, commands = _walk(folder, name, path)
    record("minutes", round(minutes, 2))
    record("commands", commands)
    assert commands <= MOST_COMMANDS
    assert server.measured[1] in measured
    assert minutes < MINUTES
