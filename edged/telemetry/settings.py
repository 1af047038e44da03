"""What the OpenTelemetry environment variables ask for.

Whether anything is exported is judged here; where to, how often and with which headers is read by
the SDK and its exporters themselves.

Source: OpenTelemetry specification, "Environment Variable Specification" and "OpenTelemetry
Protocol Exporter".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from edged.record import record

PACKAGE: Final = "edged[otel]"
"""What has to be installed for it."""
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
HTTP: Final = "http/protobuf"


@record(kw_only=False)
class TelemetryWish:
    """What is to be exported.

    Attributes:
        traces, metrics: whether each is; neither: nothing was asked for.
        endpoint: where to, for people; never with a name or password that stands in its URL.
        complaint: why something that was asked for is not done; empty where all of it is.
    """

    traces: bool = False
    metrics: bool = False
    endpoint: str = ""
    complaint: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether anything is wanted at all."""
        return bool(self.traces or self.metrics or self.complaint)


def wish_of(environment: Mapping[str, str]) -> TelemetryWish:
    """What the variables of an environment ask for; an empty one counts as one not set."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetryWish()
    wanted = {}
    complaints = []
    endpoint = ""
    for signal in ("traces", "metrics"):
        place = _place(environment, signal)
        exporter = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() or "otlp"
        wanted[signal] = bool(place) and exporter == "otlp"
        if not place or exporter == "none":
            continue
        if exporter != "otlp":
            complaints.append(
                f"OTEL_{signal.upper()}_EXPORTER is {exporter[:40]!r}; only otlp and none are "
                "understood."
            )
            continue
        protocol = _protocol(environment, signal)
        if protocol != HTTP:
            wanted[signal] = False
            complaints.append(
                f"The protocol for {signal} is {protocol[:40]!r}; only {HTTP} is understood: set "
                "OTEL_EXPORTER_OTLP_PROTOCOL to that, and the port to the collector's for HTTP "
                "(4318 unless it was changed)."
            )
            continue
        endpoint = endpoint or _shown(place)
    return TelemetryWish(**wanted, endpoint=endpoint, complaint=" ".join(complaints))


def _place(environment: Mapping[str, str], signal: str) -> str:
    own = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "").strip()
    return own or environment.get(ENDPOINT, "").strip()


def _protocol(environment: Mapping[str, str], signal: str) -> str:
    own = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "").strip()
    return own or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip() or HTTP


def _shown(place: str) -> str:
    """Scheme, host and port of a URL, and nothing else of it."""
    try:
        parts = urlsplit(place)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(an address that is no URL)"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"
