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


def _padded_anew(text: str) -> str:
    payload, _, mac = text.partition(".")
    return f"{payload.rstrip('=')}.{mac.rstrip('=')}"


def _with_other_last_bits(text: str) -> str:
    """The last character of the MAC carries bits that decoding drops."""
    mac = text.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return mac[:-1] + alphabet[alphabet.index(mac[-1]) ^ 1] + "=" * (len(text) - len(mac))


VARIANTS = [
    lambda text: f" {text}",
    lambda text: f"{text} ",
    lambda text: f"{text}\n",
    lambda text: f"{text}=",
    lambda text: f"{text}====",
    lambda text: f"{text}.x",
    lambda text: text.replace(".", ". "),
    lambda text: text.replace(".", "!."),
    lambda text: text.replace(".", "=."),
    lambda text: f"{text[:8]}~{text[8:]}",
    lambda text: f"{text[:8]}\n{text[8:]}",
    lambda text: f"\u200b{text}",
    lambda text: f"{text}\ud800",
    lambda text: text + "A" * 5_000,
    _padded_anew,
    _with_other_last_bits,
]


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_a_state_is_valid_byte_for_byte_only(number: int) -> None:
    # Of a length at which both parts of the text have padding.
    state = RequestState(principal="direct", digest="dd", until_ms=1_000, approval_id="ask-1")
    text = sealed(state, KEY)
    assert text.count("=") >= 2
    changed = VARIANTS[number](text)
    assert changed != text
    with pytest.raises(Invalid, match="not given by this daemon"):
        opened(changed, KEY, principal="direct", now_ms=0)


@given(st.data())
def test_no_character_may_be_added_to_a_state_anywhere(data: st.DataObject) -> None:
    text = sealed(STATE, KEY)
    place = data.draw(st.integers(0, len(text)))
    junk = data.draw(st.text(min_size=1, max_size=4))
    with pytest.raises(Invalid):
        opened(text[:place] + junk + text[place:], KEY, principal="direct", now_ms=0)
