"""The small parts around a worker: frames, results, output, files, launch."""

from __future__ import annotations

import array
import contextlib
import enum
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.sdk.process import MOST_LINES, WINDOW_S, Launch, OutputLog
from edged.sdk.wire import HEAD, MAX_FRAME, FrameError, decode, encode, frame_length
from edged.sdk.worker import Loading, spec_lines
from edged.sdk.wrapper import MOST_WRAPPERS, find_wrappers, json_ready, library, setting
from tests.bench.driven_clock import DrivenClock
from tests.promises import promise

TEXT = st.text(max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(TEXT, JSON, max_size=3))
def test_what_goes_into_a_frame_comes_out(message: dict[str, Any]) -> None:
    try:
        frame = encode(message)
    except FrameError:
        return
    assert frame_length(frame[: HEAD.size]) == len(frame) - HEAD.size
    assert decode(frame[HEAD.size :]) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_frame_error(body: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert isinstance(decode(body), dict)


@pytest.mark.parametrize("message", [{"a": float("nan")}, {"a": object()}, {"a": "x" * MAX_FRAME}])
def test_what_no_frame_can_hold_is_told(message: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        encode(message)


@promise("sdk.surrogates")
def test_a_lone_surrogate_in_a_text_is_replaced() -> None:
    frame = encode({"value": ["tail\ud800", {"\udfffkey": "ok"}]})
    assert decode(frame[HEAD.size :]) == {"value": ["tail?", {"?key": "ok"}]}


def test_a_length_that_no_frame_has_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(FrameError, match="4294967295 bytes"):
        frame_length(b"\xff\xff\xff\xff")


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, 2.5), [1, 2.5]),
        ({1: {"x": (True,)}}, {"1": {"x": [True]}}),
        ([float("nan"), float("inf"), 1.0], [None, None, 1.0]),
        (array.array("d", [1.0, 2.0]), [1.0, 2.0]),
        (Colour.RED, "red"),
        (None, None),
    ],
)
def test_results_become_what_json_can_hold(value: object, plain: object) -> None:
    assert json_ready(value) == plain


def test_what_has_no_plain_form_is_told_and_a_loop_ends() -> None:
    with pytest.raises(TypeError, match="a object cannot"):
        json_ready([object()])
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="deeper than 16"):
        json_ready(loop)


def test_output_is_cut_into_lines_and_bounded(driven_clock: DrivenClock) -> None:
    output = OutputLog("toy", driven_clock)
    assert output.take(b"one\ntw") is False
    assert output.take(b"o\nthree") is False
    assert output.last_words == "one\ntwo"
    assert output.take(b"x\n" * 10_000) is True
    driven_clock.move(WINDOW_S)
    assert output.take(b"again\n") is False
    output.take(b"y" * 100_000)
    output.end()
    assert len(output.last_words) < 2_000
    assert MOST_LINES < 10_000


def write(directory: Path, *names: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_text("")
    return directory


def test_a_later_directory_overrides_and_helpers_are_passed_over(tmp_path: Path) -> None:
    shipped = write(tmp_path / "shipped", "korad.py", "_shared.py", "notes.txt")
    own = write(tmp_path / "own", "korad.py", "mine_2.py")
    files = find_wrappers([shipped, own, tmp_path / "absent"])
    assert files.found == {"korad": own / "korad.py", "mine_2": own / "mine_2.py"}
    assert files.complaints == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Korad.py", "lower case"),
        ("a__b.py", "lower case"),
        ("2nd.py", "lower case"),
        ("x" * 41 + ".py", "at most 40"),
        ("rigol_dp832.py", "a profile is called rigol_dp832"),
        ("bench.py", "edged's own"),
    ],
)
def test_a_name_that_tools_cannot_have_is_told(tmp_path: Path, name: str, text: str) -> None:
    files = find_wrappers([write(tmp_path, name)], taken={"rigol_dp832"})
    assert files.found == {}
    assert text in files.complaints[0]


def test_there_are_not_more_processes_than_a_machine_can_bear(tmp_path: Path) -> None:
    files = find_wrappers([write(tmp_path, *(f"w{n}.py" for n in range(MOST_WRAPPERS + 2)))])
    assert len(files.found) == MOST_WRAPPERS
    assert len(files.complaints) == 2


@promise("sdk.environment")
def test_a_worker_gets_its_settings_and_none_of_the_engines_secrets(tmp_path: Path) -> None:
    launch = Launch(
        stem="toy",
        path=tmp_path / "toy.py",
        libraries={"dwf": Path("/opt/libdwf.so")},
        settings={"port": "/dev/ttyACM0"},
        variables=("GENICAM_GENTL64_PATH",),
    )
    secrets = {
        "EDGED_INBOUND_AUTH_TOKEN": "s3cret",
        "NOTIFY_SOCKET": "/run/x",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "HTTPS_PROXY": "http://user:s3cret@proxy",
    }
    plain = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "GENICAM_GENTL64_PATH": "/opt/gentl"}
    environ = launch.environ(secrets | plain)
    assert {name: environ[name] for name in plain} == plain
    assert not secrets.keys() & environ.keys()
    assert environ["SDK_LIBRARY_DWF"] == "/opt/libdwf.so"
    assert environ["SDK_SETTING_PORT"] == "/dev/ttyACM0"
    assert launch.command()[:3] == (sys.executable, "-m", "edged.sdk.worker")


def test_a_wrapper_asks_for_them_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SDK_LIBRARY_DWF", "/opt/libdwf.so")
    monkeypatch.setitem(os.environ, "SDK_SETTING_PORT", "COM3")
    assert library("dwf", "libdwf.so") == "/opt/libdwf.so"
    assert library("other", "libother.so") == "libother.so"
    assert setting("port") == "COM3"
    assert setting("speed", "9600") == "9600"


def test_the_lines_of_specifications_are_found_in_the_source() -> None:
    source = "import x\nMCP_TOOL_SPECS: list = [\n  {},\n\n  {},\n]\n"
    assert spec_lines(source) == ([3, 5], 2)
    assert spec_lines("MCP_TOOL_SPECS = make()\n") == ([], 1)
    assert spec_lines("def (") == ([], 1)
    assert spec_lines("x = 1") == ([], 1)


LOADED = """
import sys
MCP_TOOL_SPECS = [
    {"name": "a", "method": "a"}, {"name": "b", "method": "b"}, {"name": "c", "method": "c"},
    {"name": "d", "method": "nowhere"},
]
def a(x, y=1, *, z): ...
def b(**anything): ...
class Wrapper:
    def c(self, x): return ("c", x)
    closed = False
    def close(self): Wrapper.closed = True
"""


def test_functions_and_methods_say_what_they_take(tmp_path: Path) -> None:
    path = tmp_path / "serial.py"
    path.write_text(LOADED)
    loading = Loading(path, "serial")
    loaded = loading.load()
    assert loaded["methods"] == {
        "a": {"takes": ["x", "y", "z"], "needs": ["x", "z"]},
        "b": None,
        "c": {"takes": ["x"], "needs": ["x"]},
    }
    assert loading.call("c", {"x": 2}) == ("c", 2)
    loading.close()
    assert sys.modules["sdk_wrapper_serial"].Wrapper.closed
    del sys.modules["sdk_wrapper_serial"]
