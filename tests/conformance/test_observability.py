"""The shipped dashboard and alerting rules, in the real programs that they are for."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import EngineProcess, engine_process
from tests.promises import promise

REPOSITORY = Path(__file__).resolve().parents[2]
SHIPPED = REPOSITORY / "packaging" / "observability"
RULES = SHIPPED / "alerts.yaml"
DASHBOARD = SHIPPED / "edged.dashboard.json"
GRAFANA_PYTHON = REPOSITORY / ".venv-clients" / "grafana" / "bin" / "python"
WITHIN_S = 30.0
FAMILY = re.compile(r"\bedged_[a-z_]+")


def promtool(*words: str) -> None:
    program = shutil.which("promtool")
    assert program, "Debian's package prometheus is needed: apt install prometheus"
    done = subprocess.run(
        [program, *words], cwd=SHIPPED, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@promise("telemetry.rules")
def test_promtool_takes_the_rules_and_they_say_what_their_tests_expect() -> None:
    promtool("check", "rules", RULES.name)
    promtool("test", "rules", "alerts.test.yaml")


@promise("telemetry.dashboard")
def test_the_dashboard_is_what_its_program_writes_and_what_grafana_knows() -> None:
    written = subprocess.run(
        [sys.executable, SHIPPED / "make_dashboard.py"], capture_output=True, text=True, check=True
    )
    assert written.stdout == DASHBOARD.read_text()
    read = subprocess.run(
        [GRAFANA_PYTHON, REPOSITORY / "tests" / "clients" / "grafana_dashboard.py", DASHBOARD],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == []


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    with engine_process(tmp_path) as running:
        running.tool("get_status")
        running.tool("rigol_dp832__measure_voltage", channel=1)
        yield running


@promise("telemetry.dashboard")
@promise("telemetry.rules")
def test_every_metric_that_they_name_is_in_metrics(engine: EngineProcess) -> None:
    with urllib.request.urlopen(engine.rpc_url.replace("/rpc", "/metrics"), timeout=10) as page:
        told = {line.split("{")[0].split(" ")[0] for line in page.read().decode().splitlines()}
    named = set(FAMILY.findall(RULES.read_text())) | set(FAMILY.findall(DASHBOARD.read_text()))
    assert len(named) > 10
    assert named <= told


@promise("telemetry.dashboard")
@promise("telemetry.rules")
def test_the_real_prometheus_answers_every_query_and_fires(
    engine: EngineProcess, tmp_path: Path
) -> None:
    with scraping(engine, tmp_path) as ask:
        until(lambda: bool(values(ask, 'edged_info{job="edged"}')))
        queries = [
            target["expr"]
            for panel in json.loads(DASHBOARD.read_text())["panels"]
            for target in panel["targets"]
        ]
        for query in queries:
            filled = query.replace("$instance", ".+").replace("$__rate_interval", "1m")
            assert ask("query", query=filled)["status"] == "success"
        assert values(ask, 'sum(up{job="edged"})') == [1.0]
        assert values(ask, 'edged_instruments{state="ready"}') == [3.0]
        loaded = {
            rule["name"]: rule
            for group in ask("rules")["data"]["groups"]
            for rule in group["rules"]
        }
        assert all(rule["health"] in ("ok", "unknown") for rule in loaded.values())
        engine.stop()
        until(lambda: "EdgedDown" in pending(ask))


@promise("fleet.http-sd")
def test_the_real_prometheus_finds_benches_by_the_configuration_of_the_guide(
    engine: EngineProcess, tmp_path: Path
) -> None:
    page = (REPOSITORY / "docs" / "fleet.md").read_text()
    [shown] = re.findall(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    token = tmp_path / "edged.token"
    token.write_text("a.b.c")
    asked: list[str | None] = []
    place = {
        "targets": [f"127.0.0.1:{engine.ports['mcp_port']}"],
        "labels": {"__metrics_path__": "/metrics", "edge_id": "edge-1"},
    }

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            body = json.dumps([place]).encode()
            self.send_response(200 if asked[-1] == "Bearer a.b.c" else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as front:
        serving = threading.Thread(target=front.serve_forever)
        serving.start()
        try:
            used = shown.replace(
                "https://relay.example.org", f"http://127.0.0.1:{front.server_port}"
            )
            used = used.replace("/etc/prometheus/edged.token", str(token))
            with prometheus(tmp_path, "global: {scrape_interval: 1s}\n" + used) as ask:
                until(lambda: values(ask, 'up{job="edged",edge_id="edge-1"}') == [1.0])
        finally:
            front.shutdown()
            serving.join()
    assert set(asked) == {"Bearer a.b.c"}


def pending(ask: Callable[..., Any]) -> set[str]:
    return {alert["labels"]["alertname"] for alert in ask("alerts")["data"]["alerts"]}


def values(ask: Callable[..., Any], query: str) -> list[float]:
    return [float(one["value"][1]) for one in ask("query", query=query)["data"]["result"]]


def until(is_so: Callable[[], bool]) -> None:
    import time

    deadline = time.monotonic() + WITHIN_S
    while True:
        with contextlib.suppress(OSError):
            if is_so():
                return
        assert time.monotonic() < deadline
        time.sleep(0.2)  # noqa: TID251 - another program's scrapes have no event here


@contextlib.contextmanager
def scraping(engine: EngineProcess, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """The real Prometheus over the engine's metrics, with the shipped rules; gives its API."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "edged",
                "static_configs": [{"targets": [f"127.0.0.1:{engine.ports['rpc_port']}"]}],
            }
        ],
    }
    with prometheus(tmp_path, json.dumps(config)) as ask:
        yield ask


@contextlib.contextmanager
def prometheus(tmp_path: Path, written: str) -> Iterator[Callable[..., Any]]:
    """The real Prometheus with that configuration; gives its API."""
    program = shutil.which("prometheus")
    assert program, "Debian's package prometheus is needed: apt install prometheus"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    config.write_text(written)
    log = tmp_path / "prometheus.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )

        def ask(what: str, **query: str) -> Any:
            url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)

        try:
            yield ask
        finally:
            process.terminate()
            process.wait(20)
