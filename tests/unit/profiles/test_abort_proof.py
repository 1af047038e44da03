import pytest

from edged.profiles.abort import Proof, proofs_of
from edged.profiles.loading import load_profile
from edged.profiles.model import AbortStep
from tests.bench.fake_instruments import toy_profile
from tests.bench.shipped import PROFILES, shipped_library
from tests.bench.sweep_bench import PROFILE


def test_what_switched_outputs_off_is_proved_by_the_query_of_the_same_header() -> None:
    profile = load_profile(PROFILES / "rigol_dp832.yaml")
    assert proofs_of(profile, profile.abort) == tuple(
        Proof(f":OUTP? CH{n}", "OFF", outputs=(f"OUTP CH{n}",)) for n in (1, 2, 3)
    )


def test_every_shipped_supplys_abort_can_be_proved_or_has_nothing_to_ask() -> None:
    for profile in shipped_library().profiles.values():
        for proof in proofs_of(profile, profile.abort):
            is_marked = proof.query.partition(" ")[0].endswith("?")
            assert is_marked or not profile.connection.asks_idn


def test_a_sweeps_own_abort_is_proved_for_its_channel() -> None:
    assert proofs_of(toy_profile(PROFILE), (AbortStep(send=":OUTP CH2,OFF"),)) == (
        Proof(":OUTP? CH2", "OFF", outputs=("OUTP CH2",)),
    )


COUNTED_FROM_ZERO = """
format: 1
profile_key: zero_based
manufacturer: Zero
model: Z4
instrument_class: other
source: made up
match: {idn: zero}
abort: ["AUXV 0,0", "AUXV 1,0", "AUXV 2,0"]
commands:
  set_aux:
    scpi: "AUXV {channel},{volts}"
    parameters: {channel: {type: int, min: 0, max: 2}, volts: {type: float, min: -10, max: 10}}
  get_aux: {scpi: "AUXV? {channel}", parameters: {channel: {type: int, min: 0, max: 2}}}
"""


def test_a_channel_that_is_counted_from_zero_is_not_taken_for_the_value_that_was_set() -> None:
    profile = toy_profile(COUNTED_FROM_ZERO)
    assert proofs_of(profile, profile.abort) == tuple(
        Proof(f"AUXV? {n}", "0", outputs=(f"AUXV {n}",)) for n in (0, 1, 2)
    )


def test_no_question_about_another_channel_proves_what_one_was_told() -> None:
    profile = toy_profile(COUNTED_FROM_ZERO)
    assert proofs_of(profile, (AbortStep(send="AUXV 3,0"),)) == ()


@pytest.mark.parametrize("line", [":STOP", "*RST", ":UNKNOWN CH1,OFF"])
def test_what_has_no_question_has_no_proof(line: str) -> None:
    assert proofs_of(toy_profile(PROFILE), (AbortStep(send=line),)) == ()


@pytest.mark.parametrize(
    ("wanted", "answer", "is_so"),
    [
        ("OFF", "OFF", True),
        ("OFF", "0", True),
        ("0", "off\n", True),
        ("OFF", "ON", False),
        ("OFF", "1", False),
        ("0", "0.000E+00", True),
        ("0", "", False),
        ("STOP", "0", True),
        ("STOP", "1", False),
        # Siglent's answers repeat the header and go on behind what was asked.
        ("OFF", ":X OFF,LOAD,HZ,PLRT,NOR", True),
        ("OFF", ":X ON,LOAD,HZ,PLRT,NOR", False),
        ("OFF", ":Y OFF,LOAD,HZ,PLRT,NOR", False),
    ],
)
def test_an_answer_counts_by_its_meaning(wanted: str, answer: str, *, is_so: bool) -> None:
    assert Proof(":X?", wanted).is_given_by(answer) is is_so
