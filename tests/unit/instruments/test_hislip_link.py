"""HiSLIP's message ids: never twice in a session, and servers whose ids mean nothing."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest

from edged.clock import SystemClock
from edged.protocol.hislip import MessageType
from edged.transports.link import Link, LinkGarbled, LinkLost, LinkTimeout
from edged.transports.message import MESSAGE_AVAILABLE
from edged.transports.visa import VisaLibrary
from tests.bench.bare_link import ask
from tests.bench.hislip_server import HislipServer, Said, hislip_server
from tests.promises import promise

FIRST = 0xFFFF_FF00
ANY = 0xFFFF_FFFF
SHORT_S = 0.15


@contextlib.contextmanager
def linked(server: HislipServer) -> Iterator[Link]:
    with hislip_server(server):
        visa = VisaLibrary(clock=SystemClock(), is_on_loop=False)
        link = visa.open_link(server.address)
        try:
            link.open(5)
            link.begin(1)
            yield link
        finally:
            link.release()
            visa.close()


def text(line: str) -> bytes:
    return line.removesuffix("?").encode() + b"\n"


def echoed(message_id: int, line: str) -> list[Said]:
    return [Said(text(line), message_id)]


@promise("line.hislip-ids")
def test_ids_go_on_after_a_clear_so_that_no_old_answer_bears_a_new_one_s() -> None:
    late: list[Said] = []

    def answer(message_id: int, line: str) -> list[Said]:
        # The first answer is kept back, over a clear that is acknowledged and stops nothing.
        if line == "LATE?":
            late.append(Said(text(line), message_id))
            return []
        return [*late, *echoed(message_id, line)]

    with linked(HislipServer(answer)) as link:
        for number in range(4):
            late.clear()
            with pytest.raises(LinkTimeout):
                ask(link, "LATE?", SHORT_S)
            assert link.clear(1)
            assert ask(link, f"{number}?") == str(number)
            assert ask(link, "NEXT?") == "NEXT"
        assert link.marks_answers()


@promise("line.hislip-ids")
def test_no_id_is_used_twice_in_a_session_and_a_new_session_begins_anew() -> None:
    server = HislipServer(echoed)
    with linked(server) as link:
        for _ in range(3):
            assert ask(link, "A?") == "A"
            assert link.clear(1)
        ids = [message_id for message_id, _ in server.heard]
        assert ids == [FIRST, FIRST + 2, FIRST + 4]
        link.open(5)
        assert ask(link, "A?") == "A"
        assert server.heard[-1][0] == FIRST


def test_clears_that_are_followed_by_no_answer_end_in_a_new_session() -> None:
    with linked(HislipServer(lambda _id, _line: [])) as link:
        assert link.clear(1)
        assert link.clear(1)
        assert not link.clear(1)
        link.open(5)
        assert link.clear(1)


@pytest.mark.parametrize("alike", [0, 6, ANY])
def test_a_server_that_marks_all_alike_is_used_without_ids(alike: int) -> None:
    def answer(_id: int, line: str) -> list[Said]:
        return [Said(text(line), alike)]

    with linked(HislipServer(answer)) as link:
        assert [ask(link, f"{n}?") for n in range(150)] == [str(n) for n in range(150)]
        assert not link.marks_answers()
        link.open(5)
        assert ask(link, "AGAIN?") == "AGAIN"


def test_without_ids_what_was_left_behind_is_seen() -> None:
    def answer(_id: int, line: str) -> list[Said]:
        said = [Said(text(line), 0)]
        return [*said, Said(b"left\n", 0)] if line == "TWO?" else said

    with linked(HislipServer(answer)) as link:
        assert ask(link, "TWO?") == "TWO"
        assert link.read_message(b"\n", 1) == b"left"
        assert ask(link, "TWO?") == "TWO"
        left = b""
        while not left:
            left = link.pending()
        assert left == b"left\n"
        assert ask(link, "ONE?") == "ONE"


def test_without_ids_an_answer_waits_as_long_as_it_was_not_read_here() -> None:
    def answer(_id: int, line: str) -> list[Said]:
        return [Said(text(line), 0), Said(b"more\n", 0)]

    with linked(HislipServer(answer)) as link:
        assert ask(link, "A?") == "A"
        assert not link.marks_answers()
        status = 0
        while not status:
            status = link.status_byte(1) or 0
        assert status == MESSAGE_AVAILABLE
        assert link.read_message(b"\n", 1) == b"more"
        assert link.status_byte(1) == 0


def test_an_id_that_comes_again_and_again_is_no_mark() -> None:
    def answer(_id: int, line: str) -> list[Said]:
        return [Said(text(line), FIRST)]

    with linked(HislipServer(answer)) as link:
        assert ask(link, "A?") == "A"
        for _ in range(2):
            assert link.marks_answers()
            with pytest.raises(LinkTimeout):
                ask(link, "B?", SHORT_S)
            link.clear(1)
        assert not link.marks_answers()
        assert ask(link, "C?") == "C"


def test_answers_that_come_late_each_time_are_no_reason_to_doubt_the_ids() -> None:
    earlier: list[Said] = []

    def answer(message_id: int, line: str) -> list[Said]:
        said = list(earlier)
        earlier[:] = [Said(text(line), message_id)]
        return said

    with linked(HislipServer(answer)) as link:
        for number in range(6):
            with pytest.raises(LinkTimeout):
                ask(link, f"{number}?", SHORT_S)
        assert link.marks_answers()


def test_an_id_that_was_never_sent_is_told_where_an_old_answer_may_come() -> None:
    ids = itertools.chain([FIRST], itertools.repeat(7))

    def answer(_id: int, line: str) -> list[Said]:
        return [Said(text(line), next(ids))]

    with linked(HislipServer(answer)) as link:
        assert ask(link, "A?") == "A"
        with pytest.raises(LinkGarbled, match="mark of no question"):
            ask(link, "B?")
        assert link.clear(1)
        assert ask(link, "C?") == "C"


@pytest.mark.parametrize("is_old", [True, False])
def test_data_without_an_id_belong_to_whom_the_last_message_says(is_old: bool) -> None:
    def answer(message_id: int, line: str) -> list[Said]:
        if is_old and line == "NEW?":
            parts = [Said(b"o", ANY, kind=MessageType.DATA), Said(b"ld\n", message_id - 2)]
            return [*parts, *echoed(message_id, line)]
        if line == "NEW?":
            return [Said(b"NE", ANY, kind=MessageType.DATA), Said(b"W\n", message_id)]
        return echoed(message_id, line)

    with linked(HislipServer(answer)) as link:
        assert ask(link, "A?") == "A"
        assert ask(link, "NEW?") == "NEW"
        assert link.marks_answers()


def test_a_server_that_stays_overlapped_counts_its_answers_by_itself() -> None:
    with linked(HislipServer(echoed, stays_overlapped=True)) as link:
        assert not link.marks_answers()
        assert ask(link, "A?") == "A"


@promise("line.wire-errors")
@pytest.mark.parametrize(
    ("code", "words"),
    [(4, "takes no more clients: close another program"), (3, "such as hislip0"), (77, "its own")],
)
def test_a_refused_session_says_why_and_what_to_do(code: int, words: str) -> None:
    server = HislipServer(
        echoed, refusal=Said(b"go away", 0, kind=MessageType.FATAL_ERROR, control=code)
    )
    with (
        pytest.raises(LinkLost, match=rf'{words}.*\(HiSLIP fatal error {code}, "go away"\)'),
        linked(server),
    ):
        pass


@promise("line.wire-errors")
def test_an_error_message_is_told_in_words() -> None:
    def answer(_id: int, _line: str) -> list[Said]:
        return [Said(b"", 0, kind=MessageType.ERROR, control=4)]

    with (
        linked(HislipServer(answer)) as link,
        pytest.raises(LinkGarbled, match=r"too large for it: send shorter.*\(HiSLIP error 4\)"),
    ):
        ask(link, "A?")
