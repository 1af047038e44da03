"""Drivers for PyMeasure read by their syntax: what becomes a command, what is left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent
from typing import Any

import pytest

from edged.profiles.authoring.lint import lint_profile
from edged.profiles.library import ProfileLibrary
from edged.profiles.loading import parse_profile
from edged.profiles.match import find_profile
from edged.profiles.model import Command, ParameterType, Profile, ScalarAnswer
from edged.profiles.template import render_lines
from edged.scpi.kinds import AnswerType
from edged_author.importing.importing import Imported, import_tree
from tests.promises import promise

HEAD = """
from pymeasure.instruments import Channel, Instrument, SCPIMixin
from pymeasure.instruments.validators import (
    strict_discrete_set, strict_range, truncated_discrete_set, truncated_range,
)
"""


def imported(source: str, **more: str) -> Imported:
    """One file ``acme/psu.py``, and others of its tree by name."""
    files = {"acme/psu.py": HEAD + dedent(source)}
    files |= {name.replace("__", "/") + ".py": dedent(text) for name, text in more.items()}
    return import_tree(list(files), files.__getitem__)


def drafted(source: str, **more: str) -> Profile:
    found = imported(source, **more)
    assert found.drafts, found.left_out
    return parse_profile(found.drafts[0].text)


def command(declaration: str, name: str = "set_level") -> Command:
    source = f"class Psu(Instrument):\n    level = {declaration}\n"
    return drafted(source).commands[name]


def reasons(source: str, **more: str) -> str:
    return "\n".join(one.reason for one in imported(source, **more).left_out)


def reason(declaration: str) -> str:
    return reasons(f"class Psu(Instrument):\n    level = {declaration}\n")


@pytest.mark.parametrize("validator", ["strict_range", "truncated_range"])
@promise("profile.import-limits")
def test_a_range_gives_the_least_and_the_greatest_of_its_values(validator: str) -> None:
    found = command(
        f'Instrument.control("V?", "V %g", "Level in Volts.", validator={validator}, '
        "values=[5, -1.5, 3])"
    )
    level = found.parameters["level"]
    assert (level.type, level.min, level.max) == (ParameterType.FLOAT, -1.5, 5)
    assert level.unit == "V"
    assert render_lines(found, {"level": 2.5}) == ("V 2.5",)


@pytest.mark.parametrize("validator", ["strict_discrete_set", "truncated_discrete_set"])
@promise("profile.import-limits")
def test_a_set_gives_exactly_its_options(validator: str) -> None:
    found = command(
        f'Instrument.control("R?", "R %g", "", validator={validator}, values=[0.1, 1, 10])'
    )
    level = found.parameters["level"]
    assert level.options == ("0.1", "1", "10")
    assert [render_lines(found, {"level": o})[0] for o in level.options] == ["R 0.1", "R 1", "R 10"]


def test_whole_numbers_without_a_gap_are_a_number() -> None:
    found = command(
        'Instrument.control("N?", "N %d", "", validator=strict_discrete_set, values=range(1, 9))'
    )
    level = found.parameters["level"]
    assert (level.type, level.min, level.max) == (ParameterType.INT, 1, 8)


@promise("profile.import-limits")
def test_a_map_keeps_every_label_and_is_read_back_by_it() -> None:
    source = """
        class Psu(Instrument):
            level = Instrument.control(
                "F?", "F %s", "", validator=strict_discrete_set,
                values={"DC volts": "VOLT", "amps": "CURR", "AC": "VOLT:AC"}, map_values=True,
            )
    """
    profile = drafted(source)
    level = profile.commands["set_level"].parameters["level"]
    assert level.map == {"DC volts": "VOLT", "amps": "CURR", "AC": "VOLT:AC"}
    returns = profile.commands["get_level"].returns
    assert isinstance(returns, ScalarAnswer)
    assert returns.map == {"VOLT": "DC volts", "CURR": "amps", "VOLT:AC": "AC"}


def test_truths_go_out_as_python_writes_them_and_are_known_for_switches() -> None:
    source = """
        class Psu(Instrument):
            output = Instrument.control("OUTP?", "OUTP %d", "", validator=strict_discrete_set,
                values={True: 1, False: 0}, map_values=True)
    """
    profile = drafted(source)
    output = profile.commands["set_output"]
    assert output.parameters["output"].type is ParameterType.BOOL
    assert render_lines(output, {"output": True}) == ("OUTP 1",)
    assert output.is_dangerous
    assert profile.abort_lines == ("OUTP 0",)
    assert profile.commands["switch_off_output"].is_safe


def test_a_list_that_is_a_map_sends_the_number_of_the_place() -> None:
    found = command(
        'Instrument.control("C?", "C %d", "", validator=strict_discrete_set, '
        'values=["AC", "DC"], map_values=True)'
    )
    assert found.parameters["level"].map == {"AC": "0", "DC": "1"}


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        ('Instrument.control("V?", "V %g", "", set_process=lambda v: v * 1e3)', "set_process"),
        ('Instrument.control("V?", "V %g", "", command_process=f)', "command_process"),
        ('Instrument.control("V?", "V %g", "", validator=mine, values=[0, 1])', "mine is code"),
        ('Instrument.setting("V %g,%g", "")', "places for 2 values"),
        ('Instrument.setting("V", "")', "no place for a value"),
        ('Instrument.setting("V %(x)s", "")', "by name"),
        ('Instrument.setting("V {:g}", "")', "no place for a value"),
        ('Instrument.setting("V %g\\n", "")', "control characters"),
        ('Instrument.setting("V? %g", "")', "asks besides"),
        ('Instrument.setting("V %x", "")', "%x"),
        ('Instrument.setting(PREFIX + "V %g", "")', "not a literal"),
        ('Instrument.setting("V %g", "", strict_range, LIMITS)', "not a literal"),
        ('Instrument.setting("V %d", "", strict_range, [0.5, 3])', "its limits are none"),
        ('Instrument.setting("V %f", "", strict_range, [2e-8, 1])', "cannot write its limit"),
        ('Instrument.setting("V %g", "", strict_range, ["A", "B"])', "not numbers"),
        ('Instrument.setting("V %g", "", strict_range, {1: 2}, True)', "map behind a range"),
        ('Instrument.setting("V %s", "", strict_discrete_set, [True, 1])', "equal"),
        ('Instrument.setting("V %s", "", strict_discrete_set, "ABC")', "set that is none"),
        ('Instrument.setting("V %d", "", strict_discrete_set, ["A", "B"])', "cannot write"),
        ('Instrument.setting("V %s", "", strict_discrete_set, {1: "a", 1.0: "b"}, True)', "twice"),
        ('Instrument.setting("V %g", "", check_set_errors=True)', "asked by code"),
        ('Instrument.setting("V %g", "", lambda v, vs: v, [0, 1])', "is code"),
        ('Instrument.setting("V %g", "", strict_range, [0, 1], False, None, 1)', "by position"),
        ('Instrument.setting("V %g", "", **extra)', "gathered by code"),
        ('Instrument.setting("V %g", "", magic=1)', "magic"),
    ],
)
def test_what_only_code_tells_is_listed_with_its_reason(declaration: str, why: str) -> None:
    assert why in reason(declaration)


def test_every_left_out_line_has_its_file_and_number() -> None:
    found = imported("\n\nclass Psu(Instrument):\n    level = Instrument.setting('V', '')\n")
    (one,) = found.left_out
    lines = (HEAD + "\n\nclass Psu").splitlines()
    assert (one.path, one.line, one.what) == ("acme/psu.py", len(lines) + 1, "Psu.level")


def test_of_an_answer_that_code_reads_only_the_text_is_given() -> None:
    found = command(
        'Instrument.control("V?", "V %g", "", strict_range, [0, 1], get_process=lambda v: v / 2)',
        "get_level",
    )
    assert found.returns is None


def test_a_dynamic_limit_is_what_the_subclass_says() -> None:
    source = """
        class Family(Instrument):
            level = Instrument.control(
                "V?", "V %g", "", validator=strict_range, values=[0, 100], dynamic=True)
            fixed = Instrument.control("F?", "F %g", "", validator=strict_range, values=[0, 9])

        class Psu30(Family):
            level_values = [0, 30]
            fixed_values = [0, 1]
    """
    found = {draft.class_name: parse_profile(draft.text) for draft in imported(source).drafts}
    assert found["Family"].commands["set_level"].parameters["level"].max == 100
    assert found["Psu30"].commands["set_level"].parameters["level"].max == 30
    # What is not dynamic, nothing changes.
    assert found["Psu30"].commands["set_fixed"].parameters["fixed"].max == 9


@pytest.mark.parametrize(
    "code",
    [
        "self.level_values = [0, limit]",
        'setattr(self, "level_values", [0, limit])',
        'setattr(self, f"{limit}_values", [0, limit])',
        "setattr(self, limit, 3)",
    ],
)
def test_a_dynamic_limit_that_code_changes_is_left_out(code: str) -> None:
    source = f"""
        class Psu(Instrument):
            level = Instrument.control(
                "V?", "V %g", "", validator=strict_range, values=[0, 100], dynamic=True)
            other = Instrument.measurement("O?", "")

            def use(self, limit):
                {code}
    """
    found = imported(source)
    assert list(parse_profile(found.drafts[0].text).commands) == ["get_other"]
    assert "code changes its arguments" in found.left_out[0].reason


def test_a_subclass_that_says_it_anew_by_code_has_it_no_more() -> None:
    source = """
        class Family(Instrument):
            level = Instrument.setting("V %g", "", strict_range, [0, 100])
            other = Instrument.measurement("O?", "")

        class Psu(Family):
            @property
            def level(self):
                return 1
    """
    found = {draft.class_name: parse_profile(draft.text) for draft in imported(source).drafts}
    assert "set_level" in found["Family"].commands
    assert "set_level" not in found["Psu"].commands


def test_bases_and_constants_are_found_in_other_files_of_the_tree() -> None:
    source = """
        from acme.base import Base, LIMITS
        from .base import OPTIONS

        class Psu(Base):
            level = Instrument.setting("V %g", "", strict_range, LIMITS)
            mode = Instrument.setting("M %s", "", strict_discrete_set, OPTIONS)
    """
    base = HEAD + dedent("""
        LIMITS = [0, 2 * 3.5]
        OPTIONS = ["A", "B"]
        class Base(Instrument):
            name_of = Instrument.measurement("*IDN?", "")
    """)
    drafts = {draft.class_name: draft for draft in imported(source, acme__base=base).drafts}
    profile = parse_profile(drafts["Psu"].text)
    assert list(profile.commands) == ["get_name_of", "set_level", "set_mode"]
    assert profile.commands["set_level"].parameters["level"].max == 7


@pytest.mark.parametrize(
    "change",
    ["LIMITS = [0, 9]", "LIMITS.append(9)", "LIMITS[1] = 9", "def f():\n    global LIMITS"],
)
def test_a_name_that_is_no_constant_is_not_taken_for_one(change: str) -> None:
    source = (
        "LIMITS = [0, 1]\n"
        'class Psu(Instrument):\n    level = Instrument.setting("V %g", "", strict_range, LIMITS)\n'
    )
    assert "not a literal (LIMITS)" in reasons(f"{source}{change}\n")


def test_a_class_that_inherits_from_what_is_not_there_is_left_out() -> None:
    source = """
        from elsewhere import Strange

        class Psu(Strange, Instrument):
            level = Instrument.setting("V %g", "", strict_range, [0, 1])
    """
    found = imported(source)
    assert not found.drafts
    assert "Strange, which is not in this tree" in found.left_out[0].reason


CHANNELS = """
    class Output(Channel):
        level = Channel.control("V{ch}?", "V{ch} %g", "", strict_range, [0, 30])
        name = Channel.setting("N{{x}} %s", "")
        odd = Channel.setting("O{other} %g", "")

    class Psu(Instrument):
        outputs = Instrument.MultiChannelCreator(Output, IDS)
"""


def test_channels_that_are_numbered_are_a_number() -> None:
    profile = drafted(CHANNELS.replace("IDS", "list(range(1, 4))"))
    found = profile.commands["set_level"]
    channel = found.parameters["channel"]
    assert (channel.type, channel.min, channel.max) == (ParameterType.INT, 1, 3)
    assert render_lines(found, {"channel": 2, "level": 1.5}) == ("V2 1.5",)
    assert render_lines(profile.commands["set_name"], {"name": "a"}) == ("N{x} a",)
    assert "set_odd" not in profile.commands


def test_channels_with_names_are_options_and_a_single_one_is_written_out() -> None:
    profile = drafted(CHANNELS.replace("IDS", '["A", "B"]'))
    assert profile.commands["set_level"].parameters["channel"].options == ("A", "B")
    alone = drafted(CHANNELS.replace("IDS", '["A"]'))
    assert alone.commands["set_outputs_level"].scpi == ("VA {level:g}",)


def test_a_channel_whose_constructor_makes_another_id_is_left_out() -> None:
    source = CHANNELS.replace("IDS", '["A", "B"]').replace(
        "    class Psu",
        "        def __init__(self, parent, id):\n"
        '            super().__init__(parent, f"CH{id}")\n\n    class Psu',
    )
    found = imported(source)
    assert not found.drafts
    assert "code makes the id" in found.left_out[0].reason


@pytest.mark.parametrize(
    ("method", "arrives"),
    [
        ("def write(self, command):\n    super().write(command)", True),
        ('def write(self, command):\n    super().write("X" + command)', False),
        ("def write(self, command):\n    super().write(command)\n    self.read()", False),
        (
            "def write(self, command):\n"
            '    if "{unit}" in command:\n'
            "        command = command.format(unit=1)\n"
            "    super().write(command)",
            True,
        ),
        (
            'def write(self, command):\n    if "V" in command:\n        super().write(command)',
            False,
        ),
        ("write = other", False),
    ],
)
def test_a_class_that_sends_by_code_has_no_commands_unless_it_hands_them_on(
    method: str, arrives: bool
) -> None:
    indented = method.replace("\n", "\n    ")
    source = (
        "class Psu(Instrument):\n"
        '    level = Instrument.setting("V %g", "", strict_range, [0, 1])\n'
        f"    {indented}\n"
    )
    assert bool(imported(source).drafts) is arrives


@pytest.mark.parametrize("method", ["read", "ask", "values"])
def test_a_class_that_reads_by_code_keeps_its_writes_alone(method: str) -> None:
    source = f"""
        class Psu(Instrument):
            level = Instrument.control("V?", "V %g", "", strict_range, [0, 1])

            def {method}(self, *a):
                return 1
    """
    assert list(drafted(source).commands) == ["set_level"]


def test_errors_are_asked_as_scpi_does_where_the_class_does_so() -> None:
    mixin = """
        class SCPIMixin:
            def check_errors(self):
                pass
    """
    source = """
        from acme.mixin import SCPIMixin

        class Psu(SCPIMixin, Instrument):
            level = Instrument.setting("V %g", "", strict_range, [0, 1], check_set_errors=True)
    """
    errors = drafted(source, acme__mixin=mixin).commands["set_level"].errors
    assert errors is not None
    assert errors.query == "SYST:ERR?"


def test_no_sentence_of_the_source_stands_in_a_draft() -> None:
    source = '''
        class Psu(Instrument):
            """Some words that somebody wrote about a power supply."""

            level = Instrument.control(
                "V?", "V %g", """Control the remarkable level in Volts.""", strict_range, [0, 1])
    '''
    (draft,) = imported(source).drafts
    assert "remarkable" not in draft.text
    assert "somebody" not in draft.text
    profile = parse_profile(draft.text)
    assert profile.instrument_class == "power_supply"
    assert "class Psu in acme/psu.py" in profile.source


def test_names_are_clean_short_and_each_only_once() -> None:
    long = "the_very_long_name_of_a_measurement_of_frequency_and_temperature_number"
    source = f"""
        class Psu(Instrument):
            {long}_one = Instrument.measurement("A?", "")
            {long}_two = Instrument.measurement("B?", "")
            CamelCase__Name = Instrument.measurement("C?", "")
            _lease = Instrument.setting("D %g", "")
            sequence = Instrument.setting("E %g", "")
    """
    profile = drafted(source)
    assert len(profile.commands) == 5
    assert "get_camel_case_name" in profile.commands
    assert all(len(name) <= 64 - len(profile.key) - 12 for name in profile.commands)
    assert list(profile.commands["set_lease"].parameters) == ["lease_x"]


def test_the_keys_of_other_profiles_are_not_taken() -> None:
    files = {
        "acme/psu.py": HEAD + 'class Psu(Instrument):\n    a = Instrument.setting("A %g", "")\n'
    }
    first = import_tree(list(files), files.__getitem__).drafts[0]
    again = import_tree(list(files), files.__getitem__, taken=[first.key]).drafts[0]
    assert (first.key, again.key) == ("acme_psu", "acme_psu_imported")


def test_line_ends_and_speed_come_from_the_constructor() -> None:
    source = """
        class Psu(Instrument):
            level = Instrument.setting("V %g", "")

            def __init__(self, adapter, **kwargs):
                super().__init__(
                    adapter, read_termination="\\r", asrl={"baud_rate": 9600}, **kwargs)
    """
    connection = drafted(source).connection
    assert (connection.read_termination, connection.baud_rate) == ("\r", 9600)


def test_another_class_called_channel_declares_nothing() -> None:
    source = """
        class Channel:
            @staticmethod
            def control(*a):
                return None

        class Psu(Instrument):
            level = Channel.control("V?", "V %g", "", strict_range, [0, 1])
            other = Instrument.measurement("O?", "")
    """
    assert list(drafted(source).commands) == ["get_other"]


def test_every_declaration_is_a_command_or_stands_in_the_list() -> None:
    source = """
        made = Instrument.control("V?", "V %g", "")

        class Mixin:
            level = Instrument.control("V?", "V %g", "")

        class Psu(Instrument):
            if True:
                inside = Instrument.control("V?", "V %g", "")
            first, second = Instrument.measurement("A?", ""), 2
    """
    found = imported(source)
    assert not found.drafts
    assert found.declared == 4
    assert len({one.line for one in found.left_out}) == 4


def test_an_unreadable_file_harms_no_other() -> None:
    good = HEAD + 'class Psu(Instrument):\n    a = Instrument.setting("A %g", "")\n'
    files: Mapping[str, Any] = {"acme/psu.py": good, "acme/bad.py": "print 'two'\n"}
    found = import_tree(list(files), files.__getitem__)
    assert len(found.drafts) == 1
    assert found.left_out[0].path == "acme/bad.py"


def test_a_declaration_with_several_names_is_a_command_of_each() -> None:
    source = """
    class Load(Instrument):
        level = current = Instrument.control(
            "CURR?", "CURR %g", "Current in A.", validator=strict_range, values=[0, 9]
        )
    """
    found = imported(source)
    assert found.left_out == ()
    profile = parse_profile(found.drafts[0].text)
    assert {"set_level", "set_current", "get_level", "get_current"} <= set(profile.commands)
    for name in ("level", "current"):
        limit = profile.commands[f"set_{name}"].parameters[name]
        assert (limit.min, limit.max) == (0, 9)


@pytest.mark.parametrize(
    ("declaration", "is_number"),
    [
        ('Instrument.measurement("POW?", "Measured power.")', True),
        ('Instrument.measurement("POW?", "")', True),
        ('Instrument.measurement("STAT?", "The status byte.")', True),
        ('Instrument.measurement("POW?", "Power", cast=str)', False),
        ('Instrument.measurement("*IDN?", "Whatever it says.")', False),
        ('Instrument.measurement("NAME?", "The name of the program.")', False),
        ('Instrument.measurement("ALL?", "A list of voltages.")', False),
        ('Instrument.measurement("POW?", "Power", separator=";")', False),
        ('Instrument.measurement("POW?", "Power", get_process=lambda v: v)', False),
        ('Instrument.control("POW?", "POW %s", "Power.")', False),
        ('Instrument.control("POW?", "POW %g", "Power.")', True),
        ('Instrument.control("POW?", "POW %d", "Mode.", values=CODE())', True),
        ('Instrument.measurement("POW?", "Measure the voltage in 4-wire mode.")', True),
        ('Instrument.measurement("POW?", "Get the type K temperature.")', True),
        ('Instrument.measurement("POW?", "The measured value of the selected function.")', True),
        ('Instrument.measurement("ERR:COUN?", "Get the number of errors.")', True),
        ('Instrument.measurement("ERR?", "Get the number of errors.")', False),
        ('Instrument.measurement("POW?", "The mode of the current.")', False),
        ('Instrument.measurement("POW?", "The serial number.")', False),
    ],
)
def test_a_plain_measurement_is_a_number(declaration: str, is_number: bool) -> None:
    source = f"class Psu(Instrument):\n    level = {declaration}\n"
    profile = drafted(source)
    (query,) = (one for one in profile.commands.values() if one.is_query)
    returns = query.returns
    assert (isinstance(returns, ScalarAnswer) and returns.type is AnswerType.FLOAT) is is_number


@pytest.mark.parametrize(
    "constructor",
    [
        'def __init__(self, adapter, name=f"{MFG} {MODEL}", **kwargs):\n'
        "        super().__init__(adapter, name, **kwargs)",
        "def __init__(self, adapter, **kwargs):\n"
        '        super().__init__(adapter, f"{MFG} {MODEL}", **kwargs)',
        "def __init__(self, adapter, **kwargs):\n"
        '        super().__init__(adapter, name=MFG + " " + MODEL, **kwargs)',
    ],
)
def test_maker_and_model_of_a_single_file_are_what_its_name_says(constructor: str) -> None:
    source = (
        f'{HEAD}\nMFG = "Kikusui"\nMODEL = "PLZ1205W"\n'
        f"class Load(Instrument):\n    {constructor}\n"
        '    level = Instrument.control("CURR?", "CURR %g", "", validator=strict_range, '
        "values=[0, 9])\n"
    )
    found = import_tree(["load.py"], {"load.py": source}.__getitem__)
    profile = parse_profile(found.drafts[0].text)
    assert (profile.manufacturer, profile.model) == ("Kikusui", "PLZ1205W")
    assert find_profile("KIKUSUI,PLZ1205W,AB12,1.0", None, [profile]).profile is profile


def test_a_name_with_a_format_of_its_own_is_no_literal() -> None:
    source = (
        f'{HEAD}\nclass Load(Instrument):\n    def __init__(self, adapter, name=f"A {{1:>9}}"):\n'
        "        super().__init__(adapter, name)\n"
        '    level = Instrument.measurement("A?", "")\n'
    )
    found = import_tree(["load.py"], {"load.py": source}.__getitem__)
    assert parse_profile(found.drafts[0].text).manufacturer == "Unknown"


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ("[0, V_MAX * F]", (0, 42)),
        ("[-V_MAX / 2, V_MAX / 2]", (-20, 20)),
        ('[0, RATED["V"]]', (0, 60)),
        ("[LIMITS[0], LIMITS[1] * 1.1]", (0, 33)),
        ("[0, (1 << 8) - 1]", (0, 255)),
        ("[0, 1000 >> 1]", (0, 500)),
        ("[0, max(3, BASE)]", (0, 1024)),
        ("[min(LIMITS), max(LIMITS)]", (0, 30)),
        ("[0, round(V_MAX * F, 1)]", (0, 42)),
        ("[0, int(V_MAX)] + [5]", (0, 40)),
        ("[0, abs(-5) % 3]", (0, 2)),
    ],
)
def test_limits_by_arithmetic_over_constants_are_the_limits(
    values: str, limits: tuple[float, float]
) -> None:
    source = f"""
    RATED = {{"V": 60, "A": 10}}
    LIMITS = [0, 30]
    BASE = 2**10
    class Psu(Instrument):
        V_MAX = 40.
        F = 1.05
        level = Instrument.control(
            "LEV?", "LEV %g", "Level.", validator=strict_range, values={values}
        )
    """
    found = drafted(source).commands["set_level"].parameters["level"]
    assert (found.min, found.max) == limits


@pytest.mark.parametrize(
    "values",
    [
        '[0, RATED["W"]]',
        "[0, LIMITS[7]]",
        "[0, LIMITS[0:1]]",
        "[0, max(LIMITS, key=abs)]",
        "[0, max()]",
        "[0, 1 << 10**9]",
        '[0, "%s" % 5]',
        "[0, int('7')]",
        "[0, len(LIMITS)]",
    ],
)
def test_what_only_running_would_tell_is_no_limit(values: str) -> None:
    source = f"""
    RATED = {{"V": 60}}
    LIMITS = [0, 30]
    class Psu(Instrument):
        level = Instrument.control(
            "LEV?", "LEV %g", "Level.", validator=strict_range, values={values}
        )
    """
    found = imported(source)
    assert "set_level" not in parse_profile(found.drafts[0].text).commands
    assert len(found.left_out) == 1


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ('f"{PRE}{N}:VOLT?"', "SOUR2:VOLT?"),
        ('f"MEAS? {PRE!s}"', "MEAS? SOUR"),
        ('f"MEAS? {N:02d}"', "MEAS? 02"),
        ('f"MEAS? {X}"', "MEAS? 0.5"),
        ('"MEAS? %s" % PRE', "MEAS? SOUR"),
        ('"MEAS? %d" % N', "MEAS? 2"),
        ('"MEAS? " + PRE', "MEAS? SOUR"),
        ('"{}:VOLT?".format(PRE)', "SOUR:VOLT?"),
        ('"{0}{n}:VOLT?{0}".format(PRE, n=N)', "SOUR2:VOLT?SOUR"),
        ('"MEAS? {:02d}".format(N)', "MEAS? 02"),
        ('"MEAS? {{{!s}}}".format(N)', "MEAS? {{2}}"),
    ],
)
def test_questions_made_of_literals_are_those(question: str, line: str) -> None:
    source = (
        f'    PRE = "SOUR"\n    N = 2\n    X = 0.5\n    class Psu(Instrument):\n'
        f'        level = Instrument.measurement({question}, "Level.")\n'
    )
    assert drafted(source).commands["get_level"].scpi == (line,)


@pytest.mark.parametrize(
    "question",
    [
        '"{}:VOLT?".format()',
        '"{}:VOLT?".format(*NAMES)',
        '"{x}:VOLT?".format(**NAMES)',
        '"{0.real}:VOLT?".format(2)',
        '"{0[0]}:VOLT?".format(PRE)',
        '"{:>9}:VOLT?".format(PRE)',
        '"{!r}:VOLT?".format(PRE)',
        '"{:{}}:VOLT?".format(2, 3)',
        '"{0}{}:VOLT?".format(2, 3)',
        '"{:VOLT?".format(2)',
        '"{}:VOLT?".format(None)',
        '"{}:VOLT?".format([1])',
        "PRE.format_map(2)",
    ],
)
def test_a_question_made_by_a_format_of_its_own_is_left_out(question: str) -> None:
    source = (
        f'    PRE = "SOUR"\n    class Psu(Instrument):\n'
        f'        level = Instrument.measurement({question}, "Level.")\n'
    )
    found = imported(source)
    assert not found.drafts
    assert "is not a literal" in found.left_out[0].reason


@pytest.mark.parametrize(
    ("declaration", "told"),
    [
        ('Instrument.measurement("MEAS?", "Level.", maxsplit=0)', "maxsplit"),
        ('Instrument.measurement("MEAS?", "Level.", maxsplit=1)', "maxsplit"),
        ('Instrument.measurement("MEAS?", "Level.", separator=";")', 'separated by ";"'),
        ('Instrument.measurement("MEAS?", "Level.", separator=None)', ""),
        ('Instrument.measurement("MEAS?", "Level.", get_process=lambda v: v)', "get_process"),
        ('Instrument.measurement("DATA?", "Get the data.")', "a list or a block"),
        ('Instrument.measurement("TRAC:DATA? 1", "Get the trace.")', "a list or a block"),
        ('Instrument.measurement("POS?", "A list of positions.")', "several values"),
        ('Instrument.measurement("POW?", "Power.")', ""),
        ('Instrument.measurement("*IDN?", "The identity.")', ""),
    ],
)
def test_a_draft_says_where_an_answer_is_given_as_it_comes(declaration: str, told: str) -> None:
    source = f"class Psu(Instrument):\n    level = {declaration}\n"
    text = imported(source).drafts[0].text
    assert ("# Its answer is given as it comes" in text) is bool(told)
    assert told in text
    assert parse_profile(text).commands


def test_a_driver_whose_declarations_are_comments_gives_nothing_and_leaves_nothing_out() -> None:
    found = imported("""
        class Daq(Instrument):
            # level = Instrument.control("V?", "V %g", "", strict_range, [0, 1])
            '''other = Instrument.measurement("O?", "")'''
            pass
    """)
    assert (found.drafts, found.left_out) == ((), ())


def test_a_channel_whose_id_is_put_in_by_code_is_left_out_with_the_reason() -> None:
    source = """
    class Output(Channel):
        def insert_id(self, command):
            return command.replace("#", chr(64 + self.id))
        level = Channel.control("V#?", "V# %g", "", validator=strict_range, values=[0, 1])

    class Psu(Instrument):
        ch_1 = Instrument.ChannelCreator(Output, 1)
        other = Instrument.measurement("O?", "")
    """
    found = imported(source)
    assert "put in by code (insert_id)" in found.left_out[0].reason
    assert list(parse_profile(found.drafts[0].text).commands) == ["get_other"]


def test_lint_has_nothing_against_a_measurement_of_a_draft() -> None:
    source = """
    class Psu(Instrument):
        voltage = Instrument.measurement("MEAS:VOLT?", "Measured voltage in V.")
        on = Instrument.control(
            "OUTP?", "OUTP %d", "", validator=strict_discrete_set, values={True: 1, False: 0},
            map_values=True,
        )
    """
    profile = drafted(source)
    said = [one.sentence for one in lint_profile(profile, ProfileLibrary())]
    assert not any("MEAS:VOLT?" in one for one in said), said
