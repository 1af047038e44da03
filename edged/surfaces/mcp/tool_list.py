"""``tools/list`` as bytes: encoded once for each revision and choice, until the tools change.

A client may choose for itself what it wants listed, by the query of the URL it posts to
(``?tools=essential&instrument=psu1,dmm1``); what is listed says nothing about what may be called.

Source: docs/promises.md sections 2 and 3; docs/mcp-rules.md, "Tools, lists, progress".

``instructions``: what a model is told once about how to work this bench, in under 150 words.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from urllib.parse import parse_qs, urlencode

from edged.actions.tool import Tool
from edged.errors import ErrorCode, Invalid, NotFound
from edged.protocol.apps import tool_meta
from edged.protocol.results import Server, ToolEntry, tool_pages
from edged.protocol.revisions import Revision, negotiate
from edged.record import record
from edged.surfaces.mcp.seams import Choice, InstrumentIdOf, ToolListing, ToolSource

MANY_TOOLS: Final = 100
"""Beyond this clients cut lists off, or models choose badly among them."""
LONG_LIST: Final = 60
"""Beyond this the instructions name a shorter list: some clients take 40 tools, OpenAI 128."""
MAX_KEPT_LISTS: Final = 32
"""Lists kept encoded; each may have a megabyte or more."""


def read_choice(query: str, default: Choice) -> Choice:
    """The choice in a URL's query; parameters that are not ours are passed over.

    Raises:
        Invalid: BAD_REQUEST, ``tools`` has a value that means nothing.
    """
    if not query:
        return default
    try:
        given = parse_qs(query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        raise Invalid("The query has too many fields.", code=ErrorCode.BAD_REQUEST) from None
    wanted = given.get("tools", [default.listing.value])[-1]
    if wanted not in set(ToolListing):
        raise Invalid(
            f"?tools={wanted[:40]!r} means nothing; use all, essential or static.",
            code=ErrorCode.BAD_REQUEST,
        )
    names = [name.strip() for field in given.get("instrument", ()) for name in field.split(",")]
    named = tuple(dict.fromkeys(filter(None, names)))
    return Choice(ToolListing(wanted), named or default.instruments)


@record(kw_only=False)
class ListSize:
    """What a client has to take that asks for the whole list."""

    tools: int
    size_bytes: int


def warning_of(size: ListSize, url: str) -> str:
    """What an owner should know of a list of this size; empty where all is well.

    Args:
        url: the endpoint's, without a query; empty while it has none.
    """
    if size.tools <= MANY_TOOLS:
        return ""
    return (
        f"{size.tools} tools are listed; many clients cut a list at {MANY_TOOLS} or sooner. "
        f"{url}?tools=essential lists only a few tools of each instrument, {url}?tools=static "
        "none of them, and &instrument=psu1,dmm1 only those of these two instruments. A tool that "
        "is not listed can still be called."
    )


class ToolList:
    """The encoded pages of ``tools/list``.

    Args:
        registry: the present tools.
        server: what decorates a result.
        instrument_id_of: what a client's name for an instrument means.
    """

    def __init__(
        self, *, registry: ToolSource, server: Server, instrument_id_of: InstrumentIdOf
    ) -> None:
        self._registry = registry
        self._server = server
        self._instrument_id_of = instrument_id_of
        self._generation = registry.generation
        self._pages: OrderedDict[
            tuple[Revision, ToolListing, frozenset[str]], tuple[bytes, ...]
        ] = OrderedDict()
        self._counts: dict[tuple[ToolListing, frozenset[str]], int] = {}
        self._size: tuple[int, Choice, ListSize] | None = None

    @property
    def generation(self) -> int:
        """Of the set that ``pages`` tells now; part of the cursors."""
        return self._registry.generation

    def size(self, choice: Choice) -> ListSize:
        """Of the list in the revision that most clients ask for, so that its pages are needed."""
        generation = self._registry.generation
        if self._size is None or self._size[:2] != (generation, choice):
            pages = self.pages(negotiate(""), choice)
            size = ListSize(self._count(choice), sum(len(page) for page in pages))
            self._size = (generation, choice, size)
        return self._size[2]

    def advice(self, choice: Choice, url: str) -> str:
        """What the instructions say of a long list; empty where it is short.

        Args:
            url: the endpoint's, without a query.
        """
        count = self._count(choice)
        if count <= LONG_LIST or choice.listing is ToolListing.STATIC:
            return ""
        is_all = choice.listing is ToolListing.ALL
        shorter = ToolListing.ESSENTIAL if is_all else ToolListing.STATIC
        chosen = {"tools": shorter.value}
        if is_all and choice.instruments:
            # Without them the short list of a large bench would be the longer one.
            chosen["instrument"] = ",".join(choice.instruments)
        return (
            f"This list has {count} tools, and some clients and models take fewer: "
            f"{url}?{urlencode(chosen, safe=',:')} is the short one."
        )

    def _count(self, choice: Choice) -> int:
        """How many tools are listed; counted once for each choice, until the tools change."""
        self._forget_old()
        key = (choice.listing, self._wanted_instruments(choice))
        if key not in self._counts:
            if len(self._counts) >= MAX_KEPT_LISTS:
                self._counts.clear()
            self._counts[key] = sum(_is_wanted(tool, *key) for tool in self._registry.tools())
        return self._counts[key]

    def _forget_old(self) -> int:
        """Forget what was made of another generation; returns the present one."""
        generation = self._registry.generation
        if generation != self._generation:
            self._pages.clear()
            self._counts.clear()
            self._generation = generation
        return generation

    def pages(self, revision: Revision, choice: Choice) -> tuple[bytes, ...]:
        """Every page, encoded; at least one."""
        generation = self._forget_old()
        wanted = self._wanted_instruments(choice)
        key = (revision, choice.listing, wanted)
        found = self._pages.get(key)
        if found is None:
            entries = (
                _entry(tool)
                for tool in self._registry.tools()
                if _is_wanted(tool, choice.listing, wanted)
            )
            found = tool_pages(revision, self._server, entries, generation=generation)
            self._pages[key] = found
            if len(self._pages) > MAX_KEPT_LISTS:
                self._pages.popitem(last=False)
        return found

    def _wanted_instruments(self, choice: Choice) -> frozenset[str]:
        """Their ids; one that is not here has no tools, but the static ones are listed."""
        return frozenset(self._instrument_id_of(name) or NOT_HERE for name in choice.instruments)


NOT_HERE: Final = "\0"


def _is_wanted(tool: Tool, listing: ToolListing, instrument_ids: frozenset[str]) -> bool:
    is_static = tool.is_essential and not tool.instrument_id
    if is_static:
        return True
    if listing is ToolListing.STATIC or (
        listing is ToolListing.ESSENTIAL and not tool.is_essential
    ):
        return False
    return not instrument_ids or tool.instrument_id in instrument_ids


def _entry(tool: Tool) -> ToolEntry:
    hints = tool.annotations
    return ToolEntry(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        is_read_only=hints.read_only,
        is_destructive=hints.destructive,
        is_idempotent=hints.idempotent,
        is_open_world=hints.open_world,
        meta=tool_meta(tool.name),
    )


SENTENCES: Final[tuple[tuple[str, str], ...]] = (
    (
        "list_instruments",
        "edged serves the instruments of a bench. Begin with list_instruments: all tools take "
        "its ids and aliases. If tools/list is too long, connect to this URL with ?tools=static "
        "or ?tools=essential&instrument=ALIAS; bench__find_tools finds any.",
    ),
    (
        "get_capabilities",
        "get_capabilities(instrument_id) lists commands, arguments, units and limits.",
    ),
    (
        "execute_command",
        "Commands run by their own tool or execute_command; both check arguments.",
    ),
    (
        "send_scpi",
        "send_scpi is for what the profile lacks; no profile limit holds unless RAW_SCPI is known.",
    ),
    (
        "start_sweep",
        "Commands marked requires_sweep are ramped by start_sweep; get_sweep_status watches, "
        "stop_sweep ends it.",
    ),
    (
        "bench__reserve",
        "bench__reserve reserves units, bench__check inspects the bench.",
    ),
    ("start_stream", "start_stream repeats a reading."),
    ("fetch_waveform", "Fetch waveforms as summary, decimated or png; base64 is long."),
    (
        "get_status",
        "Sweeps and detached runs go on without you; get_status, bench__runs list them. Before a "
        "dangerous command tell what dry_run: true answers, and read the set-point back. An error "
        "says what to do next, its sent list what has reached the instrument. If something looks "
        "unsafe: bench__stop_all, then ask a person.",
    ),
)
"""Tool → what to say of it; said only where there is such a tool."""


def instructions_for(registry: ToolSource) -> str:
    """The sentences about the tools that are here."""
    return " ".join(sentence for tool, sentence in SENTENCES if _has(registry, tool))


def _has(registry: ToolSource, name: str) -> bool:
    try:
        registry.find(name)
    except NotFound:
        return False
    return True
