"""What a client carries between two calls can neither be made up nor carried elsewhere."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import Invalid
from edged.sharing.request_state import KEY_BYTES, RequestState, opened, sealed

KEY = bytes(range(KEY_BYTES))
STATE = RequestState(principal="direct", digest="d", until_ms=1_000, approval_id="ask-1")


def test_what_was_sealed_is_opened_by_whom_it_was_given_to_in_time() -> None:
    text = sealed(STATE, KEY)
    assert opened(text, KEY, principal="direct", now_ms=999) == STATE
    with pytest.raises(Invalid, match="expired"):
        opened(text, KEY, principal="direct", now_ms=1_000)
    with pytest.raises(Invalid, match="another caller"):
        opened(text, KEY, principal="relay", now_ms=0)
    with pytest.raises(Invalid, match="not given by this daemon"):
        opened(text, bytes(KEY_BYTES), principal="direct", now_ms=0)


@given(st.text(max_size=300) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_no_made_up_text_is_a_state(text: str) -> None:
    with pytest.raises(Invalid):
        opened(text, KEY, principal="direct", now_ms=0)


@given(st.data())
def test_no_bit_of_a_state_may_be_another(data: st.DataObject) -> None:
    payload, _, mac = sealed(STATE, KEY).partition(".")
    parts = [bytearray(base64.urlsafe_b64decode(part)) for part in (payload, mac)]
    which = data.draw(st.integers(0, 1))
    place = data.draw(st.integers(0, len(parts[which]) - 1))
    parts[which][place] ^= 1 << data.draw(st.integers(0, 7))
    text = ".".join(base64.urlsafe_b64encode(part).decode() for part in parts)
    with pytest.raises(Invalid):
        opened(text, KEY, principal="direct", now_ms=0)
