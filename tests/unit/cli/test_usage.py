"""What completion knows of each verb: as much as the verb's own parser."""

from __future__ import annotations

import pytest

from edged.cli.completion import usage_of
from edged.cli.main import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_of_every_verb_are_known(verb: str) -> None:
    usage = usage_of(VERBS[verb])
    assert "--help" in usage.options
    assert usage.subverbs or len(usage.options) > 1
    for subverb in usage.subverbs:
        if verb != "completion":
            assert len(usage_of(VERBS[verb], [subverb]).options) > 1


def test_the_values_of_an_option_are_known() -> None:
    usage = usage_of(VERBS["audit"], ["export"])
    assert usage.subverbs == ()
    assert usage.choices["--format"] == ("jsonl", "csv")
