"""The standard's table of lock states, row by row, and what holds whatever clients do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edged.protocol.hislip import LockResult
from edged.surfaces.hislip.unit_locks import LockBook

SUCCESS, FAILURE, ERROR, SHARED = (
    LockResult.SUCCESS,
    LockResult.FAILURE,
    LockResult.ERROR,
    LockResult.SHARED_RELEASED,
)


def test_an_exclusive_lock_keeps_others_waiting_and_is_given_once() -> None:
    book = LockBook()
    assert book.request("a", "") is SUCCESS
    assert book.request("a", "") is ERROR
    assert book.request("b", "") is FAILURE
    assert book.request("b", "key") is FAILURE
    assert book.request("a", "key") is ERROR
    assert (book.is_shut_out("a"), book.is_shut_out("b")) == (False, True)
    assert book.release("b") is ERROR
    assert book.release("a") is SUCCESS
    assert book.request("b", "") is SUCCESS


def test_a_shared_lock_is_for_all_who_know_its_string() -> None:
    book = LockBook()
    assert book.request("a", "key") is SUCCESS
    assert book.request("a", "key") is ERROR
    assert book.request("b", "other") is FAILURE
    assert book.request("b", "key") is SUCCESS
    assert book.request("c", "") is FAILURE
    assert (book.is_exclusive, book.holder_count) == (False, 2)
    assert [book.is_shut_out(who) for who in "abc"] == [False, False, True]
    assert book.release("a") is SHARED
    assert book.release("a") is ERROR
    assert book.release("b") is SHARED
    assert book.request("c", "other") is SUCCESS


def test_a_sharer_may_have_the_exclusive_lock_besides_and_gives_it_back_first() -> None:
    book = LockBook()
    book.request("a", "key")
    book.request("b", "key")
    assert book.request("a", "") is SUCCESS
    assert (book.is_exclusive, book.holder_count) == (True, 2)
    assert (book.is_shut_out("a"), book.is_shut_out("b")) == (False, True)
    assert book.request("b", "") is FAILURE
    assert book.request("c", "key") is SUCCESS
    assert book.release("a") is SUCCESS
    assert book.release("a") is SHARED
    assert book.request("b", "") is SUCCESS


def test_a_client_that_goes_takes_its_locks_with_it() -> None:
    book = LockBook()
    book.request("a", "key")
    book.request("a", "")
    assert book.leave("a")
    assert not book.leave("a")
    assert (book.holder_count, book.key) == (0, "")
    assert book.request("b", "") is SUCCESS


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "x", "y", "release", "leave"])),
        max_size=60,
    )
)
def test_whatever_is_asked_nobody_is_let_in_beside_an_exclusive_lock(
    steps: list[tuple[str, str]],
) -> None:
    book = LockBook()
    for client, what in steps:
        before = (book.holder_count, book.is_exclusive, book.key)
        if what == "leave":
            book.leave(client)
        else:
            result = book.release(client) if what == "release" else book.request(client, what)
            if result in (FAILURE, ERROR):
                assert (book.holder_count, book.is_exclusive, book.key) == before
            elif result is SUCCESS and what != "release":
                assert book.holds(client)
        free = [who for who in "abcd" if not book.is_shut_out(who)]
        if book.is_exclusive:
            assert len(free) == 1
            assert book.holds(free[0])
        elif book.holder_count:
            assert all(book.holds(who) for who in free)
        assert bool(book.key) == any(book.holds(who) for who in "abcd") or book.is_exclusive
