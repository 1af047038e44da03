"""Drivers by whoever means harm: read within bounds, never run, and nothing written elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.profiles.loading import parse_profile
from edged.profiles.model import ParameterType
from edged.profiles.template import render_lines
from edged_author.cli.importing import run
from edged_author.importing.importing import import_tree
from tests.promises import promise

WITHIN_S = 20.0
"""For the worst quarter of a megabyte on a busy machine; ten times what it takes alone."""
MOST_BYTES = 400_000_000
SIZE = 256 * 1024 - 200
IMPORT = "from pymeasure.instruments import Instrument\n"
HEAD = IMPORT + "from pymeasure.instruments.validators import *\nclass A(Instrument):\n"
SET = '  x = Instrument.control("A?", "A %g", "", values='

HOSTILE = {
    "statements": "a\n" * 19_000,
    "one long statement": "x = [" + "1," * (SIZE // 2) + "]",
    "a mapping": "x = {" + "1:2," * (SIZE // 4) + "}",
    "sums": "x = " + "1+" * (SIZE // 2) + "1",
    "attributes": "x = a" + ".b" * (SIZE // 2),
    "calls": "x = a" + "()" * (SIZE // 2),
    "signs": "x = " + "-" * SIZE + "1",
    "lambdas": "x = " + "lambda:" * (SIZE // 7) + "0",
    "conditions": "x = " + "1 if 1 else " * (SIZE // 12) + "1",
    "digits": "x = " + "9" * SIZE,
    "hexadecimal": "x = 0x" + "f" * SIZE,
    "brackets": "x = " + "(" * 79 + ")" * 79,
    "too many brackets": "x = " + "[" * 5_000 + "]" * 5_000,
    "indentation": "".join("\t" * i + "if 1:\n" for i in range(99)) + "\t" * 99 + "x",
    "a formatted text": 'x = f"' + "{a}" * 19_000 + '"',
    "formatted in formatted": "x = " + 'f"{' * 60 + "1" + '}"' * 60,
    "equals": "a=" * (SIZE // 2) + "1",
    "keywords": "f(" + "**a," * (SIZE // 4) + ")",
    "decorators": "@a\n" * 19_000 + "class A: pass",
    "broken lambdas": "(" * 60 + "lambda x:" * 20 + ")" * 60,
    "elifs": "if 1:\n x\n" + "elif 1:\n x\n" * 9_000,
    "constants of constants": "".join(f"A{i}=A{i + 1}+A{i + 1}\n" for i in range(60))
    + f"A60=1\n{HEAD}{SET}A0)\n",
    "lists of lists": "".join(f"A{i}=[A{i + 1},A{i + 1}]\n" for i in range(60))
    + f"A60=1\n{HEAD}{SET}A0)\n",
    "itself": f"A0=A0\n{HEAD}{SET}A0)\n",
    "a power": f"{HEAD}{SET}[0, 9**9**9], validator=strict_range)\n",
    "a long text": f'{HEAD}{SET}["a" * 99999999999], validator=strict_range)\n',
    "a long range": f"{HEAD}{SET}range(10**11), validator=strict_discrete_set)\n",
    "a longer range": f"{HEAD}{SET}range(10**400), validator=strict_range)\n",
    "generations": IMPORT
    + "class C0(Instrument):\n  x = Instrument.measurement('A?', '')\n"
    + "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(1, 499)),
    "diamonds": IMPORT
    + "class C0(Instrument):\n  x = Instrument.measurement('A?', '')\nclass D0(C0): pass\n"
    + "".join(
        f"class C{i}(C{i - 1},D{i - 1}): pass\nclass D{i}(C{i - 1},D{i - 1}): pass\n"
        for i in range(1, 200)
    ),
    "its own base": IMPORT + "class A(A, Instrument): pass\nclass B(C): pass\nclass C(B): pass\n",
    "many declarations": HEAD
    + "".join(f'  x{i} = Instrument.setting("A{i} %g", "")\n' for i in range(5_000)),
    "another Python": "print 'x'\nexec 'a'\n",
    "a null byte": "a\0b",
    "half a character": "x = '\udc80'",
    "private characters": f'{HEAD}  x = Instrument.setting("A \ue000 %g", "")\n',
    "too large": "# " + "x" * 10_000_000,
    "nothing": "",
}


@pytest.mark.parametrize("name", HOSTILE)
@promise("profile.import-runs-nothing")
def test_whatever_a_file_holds_is_read_in_bounded_time(name: str) -> None:
    source = HOSTILE[name]
    began = time.monotonic()
    found = import_tree(["acme/a.py"], lambda _: source)
    took_s = time.monotonic() - began
    for draft in found.drafts:
        parse_profile(draft.text)
    assert took_s < WITHIN_S


@promise("profile.import-runs-nothing")
def test_all_of_them_together_take_bounded_memory(tmp_path: Path) -> None:
    tree = tmp_path / "acme"
    tree.mkdir()
    for number, source in enumerate(HOSTILE.values()):
        (tree / f"f{number}.py").write_text(source, errors="surrogatepass")
    program = (
        "import re, sys; from edged_author.cli.importing import run; run(sys.argv[1:]); "
        # Its own peak: getrusage would tell that of the test run that it was forked from as well.
        "print(1024 * int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]))"
    )
    words = ["--all", str(tree), "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < MOST_BYTES


@promise("profile.import-runs-nothing")
def test_nothing_of_a_driver_is_run_or_imported(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    driver = tmp_path / "acme" / "psu.py"
    driver.parent.mkdir()
    evil = f"open({str(trace)!r}, 'w')"
    driver.write_text(
        f"import os\n{IMPORT}{evil}\n"
        f"class Psu(Instrument):\n    {evil}\n"
        f"    a = Instrument.control('A?', 'A %g', '', values=[{evil}])\n"
        "    b = Instrument.measurement('B?', '')\n"
    )
    (tmp_path / "acme" / "__init__.py").write_text(evil)
    assert run([str(driver), "--output", str(tmp_path / "out")]) == 0
    assert not trace.exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["acme_psu.yaml"]


@promise("profile.import-runs-nothing")
def test_links_pipes_and_strange_names_are_passed_over_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    good = f"{IMPORT}class Psu(Instrument):\n    a = Instrument.measurement('A?', '')\n"
    (tree / "good.py").write_text(good)
    (tree / "loop").symlink_to(tree)
    (tree / "deep" / "itself.py").symlink_to("itself.py")
    (tree / "outside.py").symlink_to("/etc/passwd")
    os.mkfifo(tree / "pipe.py")
    (tree / "new\nline.py").write_text(good)
    (tree / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tree / "large.py").write_text("# " + "x" * 10_000_000)
    assert run(["--all", str(tree), "--output", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [draft["class"] for draft in told["drafts"]] == ["Psu"]
    assert len(told["left_out"]) == 7


@promise("profile.import-runs-nothing")
def test_no_name_of_a_class_leads_out_of_the_folder(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("..hidden", "a b", "con", "-rf"):
        (tree / folder).mkdir(parents=True)
        (tree / folder / "x.py").write_text(
            f"{IMPORT}class Ünïcode__Psu_{'x' * 300}(Instrument):\n"
            "    a = Instrument.measurement('A?', '')\n"
        )
    out = tmp_path / "out"
    out.mkdir()
    secret = tmp_path / "secret.yaml"
    secret.write_text("mine")
    run(["--all", str(tree), "--output", str(out)])
    assert len(list(out.iterdir())) == 4
    first = sorted(out.iterdir())[0]
    first.unlink()
    first.symlink_to(secret)
    assert run(["--all", str(tree), "--output", str(out)]) == 1
    assert secret.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "secret.yaml", "tree"]


def test_what_a_person_has_changed_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = tmp_path / "psu.py"
    driver.write_text(f"{IMPORT}class Psu(Instrument):\n    a = Instrument.setting('A %g', '')\n")
    out = tmp_path / "out"
    assert run([str(driver), "--output", str(out)]) == 0
    assert run([str(driver), "--output", str(out)]) == 0
    (draft,) = out.iterdir()
    draft.write_text(draft.read_text().replace("status: imported", "status: reviewed"))
    assert run([str(driver), "--output", str(out)]) == 1
    assert "status: reviewed" in draft.read_text()
    assert "was not changed" in capsys.readouterr().err


# The conversion of templates


CONVERSIONS = st.sampled_from(
    ["%d", "%i", "%g", "%e", "%.3e", "%f", "%.2f", "%5.1f", "%05.1f", "%+d", "%03d", "%G", "%s"]
)
PLAIN = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=12)


def declared(template: str, rest: str) -> str:
    return f"{HEAD}  x = Instrument.setting({template!r}, '', {rest})\n"


@given(before=PLAIN, conversion=CONVERSIONS, after=PLAIN, share=st.floats(0, 1))
def test_a_range_goes_out_as_python_would_write_it(
    before: str, conversion: str, after: str, share: float
) -> None:
    template = f"A {before.replace('%', '%%')}{conversion}{after.replace('%', '%%')}"
    value: float = round(-100 + share * 1_100)
    source = declared(template, "strict_range, [-100, 1000]")
    found = import_tree(["a/b.py"], {"a/b.py": source}.__getitem__)
    for draft in found.drafts:
        command = parse_profile(draft.text).commands["set_x"]
        if command.parameters["x"].type is ParameterType.FLOAT and conversion != "%s":
            value = float(value)
        assert render_lines(command, {"x": value}) == (template % value,)


@given(
    conversion=st.one_of(CONVERSIONS, st.sampled_from(["%x", "%02X", "%c", "%r", "%o"])),
    values=st.lists(
        st.one_of(st.booleans(), st.integers(0, 300), st.text("ABC; \"'", max_size=4)),
        min_size=1,
        max_size=5,
    ),
)
def test_every_option_goes_out_as_python_would_write_it(
    conversion: str, values: list[bool | int | str]
) -> None:
    source = declared(f"A {conversion}", f"strict_discrete_set, {values!r}")
    found = import_tree(["a/b.py"], {"a/b.py": source}.__getitem__)
    for draft in found.drafts:
        command = parse_profile(draft.text).commands["set_x"]
        parameter = command.parameters["x"]
        if parameter.type is ParameterType.INT:
            sent = {render_lines(command, {"x": value}) for value in values}
        elif parameter.type is ParameterType.BOOL:
            sent = {render_lines(command, {"x": value}) for value in (True, False)}
        else:
            assert len(parameter.options) == len(values)
            sent = {render_lines(command, {"x": label}) for label in parameter.options}
        assert sent == {(f"A {conversion}" % (value,),) for value in values}


@given(
    literal=PLAIN,
    identity=st.one_of(st.integers(0, 20), st.text("AB12", min_size=1, max_size=3)),
    spec=st.sampled_from(["", ":d", ":02d", ":>4", ":s"]),
)
def test_a_channels_template_is_filled_as_python_would_fill_it(
    literal: str, identity: int | str, spec: str
) -> None:
    template = "A" + literal.replace("{", "{{").replace("}", "}}") + "{ch" + spec + "}?"
    source = (
        "from pymeasure.instruments import Channel, Instrument\n"
        f"class C(Channel):\n  x = Channel.measurement({template!r}, '')\n"
        f"class A(Instrument):\n  c = Instrument.ChannelCreator(C, {identity!r})\n"
    )
    found = import_tree(["a/b.py"], {"a/b.py": source}.__getitem__)
    for draft in found.drafts:
        (command,) = parse_profile(draft.text).commands.values()
        assert render_lines(command, {}) == (template.format(ch=identity),)


@given(st.text(max_size=40))
def test_any_text_for_a_template_gives_a_command_or_a_reason(text: str) -> None:
    for kind in ("setting", "measurement"):
        source = f"{HEAD}  x = Instrument.{kind}({text!r}, '')\n"
        found = import_tree(["a/b.py"], {"a/b.py": source}.__getitem__)
        assert bool(found.drafts) != bool(found.left_out)
        for draft in found.drafts:
            parse_profile(draft.text)


@given(st.text(max_size=300))
def test_any_text_for_a_file_is_read_or_told(text: str) -> None:
    import_tree(["a/b.py"], lambda _: text)
    import_tree(["a/b.py"], lambda _: HEAD + "  " + text)
