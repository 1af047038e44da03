import pytest

from edged.profiles.abort import Proof, judge, proofs_of, said_by
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
    ("query", "answer", "value"),
    [
        ("C1:OUTP?", "C1:OUTP OFF,LOAD,HZ,PLRT,NOR", "OFF"),
        ("C1:OUTP?", "C2:OUTP OFF,LOAD,HZ", "C2:OUTP OFF"),
        # With Siglent's headers switched off.
        ("C1:OUTP?", "OFF,LOAD,50,PLRT,NOR", "OFF"),
        # The long form, and optional nodes (Tektronix, Keysight).
        (":OUTP1?", ":OUTPUT1:STATE 0", "0"),
        ("ACQuire:STATE?", ":ACQUIRE:STATE 1", "1"),
        (":OUTP? CH1", ":OUTPut CH1,ON", "ON"),
        ("INST:NSEL 2;:OUTP?", "OUTP 0", "0"),
        ("OUTP?", '"OFF"', "OFF"),
        # The first value of a list speaks of one output alone.
        ("OUTP?", "0,1", "0,1"),
        ("OUTP?", "OUTP OFF,ON", "OFF,ON"),
        ("X", "X9A0C3", "X9A0C3"),
        ("OUTP?", "", ""),
    ],
)
def test_an_answer_says_one_value_whatever_stands_around_it(
    query: str, answer: str, value: str
) -> None:
    assert said_by(query, answer) == value


@pytest.mark.parametrize("answer", ["+0", "0", " OFF ", "+0.000E+00", "OUTP 0"])
def test_every_spelling_of_zero_is_off(answer: str) -> None:
    assert Proof("OUTP?", "OFF").is_given_by(answer)
    assert not Proof("OUTP?", "ON").is_given_by(answer)


@pytest.mark.parametrize("answer", ["+1", "1", "2", "0,1", "FAULT", ""])
def test_what_is_no_zero_is_not_off(answer: str) -> None:
    assert not Proof("OUTP?", "OFF").is_given_by(answer)


def test_a_proof_is_in_the_journal_with_its_selection_and_an_old_journal_is_read() -> None:
    proof = Proof("OUTP?", "OFF", "^0$", selecting=("ADR 6", "INST 1"))
    assert Proof.from_json(proof.to_json()) == proof
    old = {"query": "OUTP?", "wanted": "OFF", "expect": ""}
    assert Proof.from_json(old) == Proof("OUTP?", "OFF")
    for selecting in ("INST 1", [1], None):
        assert Proof.from_json({**old, "selecting": selecting}) is None


def test_an_output_is_off_only_if_every_question_about_it_was_answered_so() -> None:
    proofs = [
        Proof("OUTP?", "OFF", outputs=("OUTP",), selecting=(line,)) for line in ("INST 1", "INST 2")
    ]
    assert judge(proofs, ["0", "0"]).off == {"OUTP"}
    assert judge(proofs, ["0", "1"]).off == set()
    assert judge(proofs, ["1", "0"]).error == "INST 1; OUTP? answers '1', not 'OFF'."
    assert judge(proofs, ["0"]).off == set()


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
