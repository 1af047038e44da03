import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import NotFound
from edged_sim.models import load_model, model_names
from edged_sim.plain import PlainSpec
from edged_sim.scpi import MOST_ERRORS, block
from edged_sim.wires.stream import LONGEST_MESSAGE_BYTES, LineFramer
from tests.bench.simulated import PretendedBench

HEARS_AGAIN_S = 0.2
"""Some lose what comes right after a write."""

MODELS = tuple(name for name in model_names() if not isinstance(load_model(name), PlainSpec))


def test_an_undefined_header_is_not_answered_and_leaves_an_error() -> None:
    unit = PretendedBench().add("generic_scpi")
    assert unit.raw("NONSENSE?") is None
    assert unit.error() == -113
    assert unit.error() == 0


def test_the_answers_of_a_compound_message_come_in_one_line() -> None:
    unit = PretendedBench().add("generic_scpi")
    assert unit.ask(":LEV 2;LEV?;*OPC?") == "2.000000E+00;1"


def test_a_part_that_fails_does_not_stop_the_rest() -> None:
    unit = PretendedBench().add("generic_scpi")
    assert unit.raw("LEV 99;LEV 3") is None
    assert unit.error() == -222
    assert unit.number("LEV?") == 3.0


def test_a_full_error_queue_says_that_there_were_more() -> None:
    unit = PretendedBench().add("generic_scpi")
    for _ in range(MOST_ERRORS + 5):
        unit.raw("NONSENSE")
    numbers = [unit.error() for _ in range(MOST_ERRORS + 1)]
    assert numbers == [-113] * (MOST_ERRORS - 1) + [-350, 0]


def test_the_event_status_register_tells_once_what_went_wrong() -> None:
    unit = PretendedBench().add("generic_scpi")
    unit.tell("*CLS")
    unit.raw("NONSENSE")
    unit.raw("LEV 99")
    unit.raw("*OPC")
    assert unit.ask("*ESR?") == str(0x20 | 0x10 | 0x01)
    assert unit.ask("*ESR?") == "0"


def test_the_status_byte_tells_of_waiting_errors() -> None:
    unit = PretendedBench().add("generic_scpi")
    unit.tell("*CLS", "*ESE 32")
    unit.raw("NONSENSE")
    assert unit.ask("*STB?") == str(0x20 | 0x04)


def test_a_delay_takes_its_time_and_answers_the_nonce() -> None:
    unit = PretendedBench().add("generic_scpi")
    assert unit.ask('DIAG:DELAY? 30,"n-17"') == "n-17"
    assert unit.took_s == 30.0


@pytest.mark.parametrize("model", MODELS)
def test_every_model_tells_who_it_is_and_echoes_a_nonce(model: str) -> None:
    unit = PretendedBench().add(model)
    spec = load_model(model)
    assert unit.ask("*IDN?") == spec.idn.format(serial=unit.instrument.serial)
    assert unit.ask('DIAG:ECHO? "a; b, ""c"""') == 'a; b, "c"'


@pytest.mark.parametrize("model", MODELS)
def test_every_query_of_every_model_is_answered_or_an_error_and_nothing_breaks(model: str) -> None:
    unit = PretendedBench().add(model)
    for pattern in load_model(model).vocabulary.headers():
        header = pattern.replace("<n>", "1").replace("[", "").replace("]", "")
        unit.bench.wait(HEARS_AGAIN_S)
        unit.raw("*CLS")
        unit.bench.wait(HEARS_AGAIN_S)
        answer = unit.raw(header)
        if header.endswith("?"):
            assert answer is not None or unit.instrument.status.count() == 1, header
        for argument in ("1", "0", "MIN", "MAX", "ON", '"x"', "CH1", "CH1,1", "9e99", ",", "(@1)"):
            unit.bench.wait(HEARS_AGAIN_S)
            unit.raw(f"{header} {argument}")
    unit.bench.wait(HEARS_AGAIN_S)
    unit.raw("*RST")
    unit.bench.wait(HEARS_AGAIN_S)
    assert unit.ask("*IDN?")


@pytest.mark.parametrize("model", MODELS)
def test_copies_with_one_seed_answer_alike_and_with_another_differ_only_in_noise(
    model: str,
) -> None:
    first, second = (PretendedBench(seed=5).add(model) for _ in range(2))
    for header in load_model(model).vocabulary.headers():
        if header.endswith("?"):
            message = header.replace("<n>", "1").replace("[", "").replace("]", "")
            assert first.raw(message) == second.raw(message), message


@pytest.mark.parametrize("name", ["../escape", "families"])
def test_an_unknown_model_is_named_with_those_that_there_are(name: str) -> None:
    with pytest.raises(NotFound, match="keysight_34461a"):
        load_model(name)


@given(st.binary(max_size=200), st.sampled_from(MODELS))
def test_no_bytes_break_an_instrument(message: bytes, model: str) -> None:
    unit = PretendedBench().add(model)
    unit.raw(message.decode("latin-1"))
    unit.bench.wait(HEARS_AGAIN_S)
    assert unit.ask("*IDN?")


def test_a_block_tells_its_length_in_nine_digits() -> None:
    assert block(b"abc") == b"#9000000003abc"


@given(st.lists(st.binary(max_size=30)), st.integers(1, 7))
def test_messages_are_the_same_however_they_arrive(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines) + b"\n"
    at_once = LineFramer().feed(data)
    in_pieces = LineFramer()
    pieces = [
        message
        for start in range(0, len(data), size)
        for message in in_pieces.feed(data[start : start + size])
    ]
    assert pieces == at_once


def test_a_message_that_never_ends_is_thrown_away_and_the_next_one_is_heard() -> None:
    framer = LineFramer()
    assert framer.feed(b"x" * (LONGEST_MESSAGE_BYTES + 1)) == []
    assert framer.overruns == 1
    assert framer.feed(b"still the same\r\n*IDN?\r\n") == [b"*IDN?"]
