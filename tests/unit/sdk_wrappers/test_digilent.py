"""The Digilent wrapper without its library, without a device, and beside WaveForms."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edged.sdk.specs import SpecSource, read_specs
from edged.sdk.wrapper import NotConnected, SdkMissing
from tests.bench.fake_dwf import SOURCE, compile_fake_dwf

PATH = Path(__file__).resolve().parents[3] / "sdk_wrappers" / "digilent_analog_discovery.py"
STEM = PATH.stem


def load() -> Any:
    spec = importlib.util.spec_from_file_location("digilent_under_test", PATH)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


digilent = load()
C_TYPES = {
    "c_int": "int",
    "c_double": "double",
    "c_ubyte": "unsigned char",
    "LP_c_int": "int *",
    "LP_c_ubyte": "unsigned char *",
    "LP_c_double": "double *",
    "c_char_p": "char *",
}
SYNONYMS = {
    "HDWF": "int",
    "FUNC": "unsigned char",
    "TRIGSRC": "unsigned char",
    "DwfState": "unsigned char",
}


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_fake_dwf(tmp_path_factory.mktemp("dwf"))


@pytest.fixture
def wrapper(fake: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SDK_LIBRARY_DWF", str(fake))
    monkeypatch.setattr(digilent, "SETTLE_S", 0.0)
    made = digilent.Wrapper()
    yield made
    made.close()


def declared() -> dict[str, tuple[str, ...]]:
    """The argument types of each function of the simulated library, from its source."""
    found = {}
    for name, text in re.findall(r"^int (FDwf\w+)\(([^)]*)\)", SOURCE.read_text(), re.MULTILINE):
        types = []
        for argument in text.split(","):
            plain = re.sub(r"\[\d+\]", "", argument)
            word = plain.strip().split()[0]
            is_pointer = "*" in argument or "[" in argument
            types.append(SYNONYMS.get(word, word) + (" *" if is_pointer else ""))
        found[name] = tuple(types)
    return found


def test_every_function_is_called_with_the_types_that_c_has() -> None:
    known = declared()
    for name, types in digilent.SIGNATURES.items():
        assert tuple(C_TYPES[one.__name__] for one in types) == known[name], name


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDK_LIBRARY_DWF", "/nowhere/libdwf.so")
    for act in (digilent.check_library, digilent.Wrapper):
        with pytest.raises(SdkMissing, match="could not be loaded") as missing:
            act()
        assert "WaveForms" in missing.value.remedy
        assert "SDK_LIBRARIES" in missing.value.remedy


def test_another_library_of_that_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDK_LIBRARY_DWF", "libc.so.6")
    with pytest.raises(SdkMissing, match="too old or another library"):
        digilent.check_library()


def test_no_device_and_one_that_another_program_has(
    wrapper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DWF_DEVICES", "0")
    with pytest.raises(NotConnected, match="No Analog Discovery is connected"):
        wrapper.read_voltage(channel=1, span=5)
    monkeypatch.setenv("FAKE_DWF_DEVICES", "1")
    monkeypatch.setenv("FAKE_DWF_TAKEN", "1")
    with pytest.raises(NotConnected, match="Another program") as taken:
        wrapper.outputs_off()
    assert "Close WaveForms" in taken.value.remedy
    monkeypatch.delenv("FAKE_DWF_TAKEN")
    assert wrapper.outputs_off() == {"is_on": False}


def test_a_device_is_chosen_by_its_serial_number(
    wrapper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DWF_DEVICES", "2")
    monkeypatch.setenv("SDK_SETTING_SERIAL", "0001")
    assert wrapper.read_supplies()["is_on"] is False
    wrapper.close()
    monkeypatch.setenv("SDK_SETTING_SERIAL", "9999")
    with pytest.raises(NotConnected, match="serial number 9999") as absent:
        wrapper.read_supplies()
    assert "SN:210321A00001" in absent.value.remedy


def test_a_supply_that_is_zero_stays_off(wrapper: Any) -> None:
    told = wrapper.set_supplies(positive=2.5, negative=0.0)
    assert told["supplies"]["V+"]["enable"] == 1.0
    assert told["supplies"]["V-"]["enable"] == 0.0
    wrapper.outputs_off()


def test_its_specifications_are_sound() -> None:
    specs = read_specs(digilent.MCP_TOOL_SPECS, SpecSource(stem=STEM, path=str(PATH)))
    by_name = {spec.name: spec for spec in specs}
    assert {name for name, spec in by_name.items() if spec.is_dangerous} == {
        "generate",
        "set_supplies",
    }
    assert [name for name, spec in by_name.items() if spec.is_abort] == ["outputs_off"]
    assert all(hasattr(digilent.Wrapper, spec.method) for spec in specs)
