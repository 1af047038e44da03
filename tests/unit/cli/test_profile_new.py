"""What a draft learns of an instrument's errors, and how it leaves them."""

from __future__ import annotations

import pytest

from edged.cli.profile.new import find_error_query
from edged.errors import ErrorCode, Failed


class Queue:
    """An instrument that keeps errors, and knows one question for them."""

    def __init__(self, query: str, *errors: str) -> None:
        self.query = query
        self.errors = [*errors]

    def ask(self, query: str) -> str:
        if query != self.query:
            self.errors.append('-113,"Undefined header"')
            raise Failed("It did not answer.", code=ErrorCode.TIMEOUT)
        return self.errors.pop(0) if self.errors else '+0,"No error"'


@pytest.mark.parametrize("query", ["SYST:ERR?", "ERR?"])
def test_no_error_of_its_own_questions_is_left_in_the_queue(query: str) -> None:
    queue = Queue(query, '-113,"Undefined header"')
    assert find_error_query(queue.ask) == query
    assert queue.errors == []


def test_an_instrument_that_only_ever_has_errors_is_not_asked_for_ever() -> None:
    asked: list[str] = []

    def ask(query: str) -> str:
        asked.append(query)
        return '-350,"Queue overflow"'

    assert find_error_query(ask) == "SYST:ERR?"
    assert len(asked) < 50


def test_without_an_answer_there_is_no_question() -> None:
    assert find_error_query(Queue("FAULTS?").ask) == ""
