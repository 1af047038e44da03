"""The check of the relay route: its settings, the connection to it, and its issuer's keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from edged.doctor.facts import Facts
from edged.doctor.report import Line, fail, passed, skip, warn

__all__ = ["check_relay"]


def check_relay(facts: Facts) -> Line:
    """The relay route, its connection, and its issuer's keys."""
    config = facts.config
    settings = {
        "RELAY_NATS_URL": config.relay_nats_url,
        "RELAY_ISSUER": config.relay_issuer,
        "RELAY_JWKS_URL": config.relay_jwks_url,
    }
    if not any(settings.values()):
        return skip("The relay route is not configured.")
    missing = [name for name, value in settings.items() if not value]
    if missing:
        return fail(f"{', '.join(missing)} is not set.", "The relay route needs all of them.")
    if not facts.is_answering:
        return skip("No engine answers.")
    told = facts.status.get("relay", {})
    return _of_keys(facts, told.get("jwks") or {}) or _of_link(facts, told)


def _of_keys(facts: Facts, jwks: Mapping[str, Any]) -> Line | None:
    """What is wrong with the issuer's keys, if anything is."""
    if not jwks.get("error"):
        return None
    verdict = warn if jwks.get("keys") else fail
    return verdict(
        f"{facts.config.relay_jwks_url}: {jwks['error']}; {jwks.get('keys', 0)} keys are cached.",
        "Make it reachable from here; cached keys serve for 24 hours.",
    )


def _of_link(facts: Facts, told: Mapping[str, Any]) -> Line:
    link: Mapping[str, Any] = told.get("link") or {}
    state, jwks = link.get("state", "off"), told.get("jwks") or {}
    since = f" since {_utc(link['since_ms'])}" if link.get("since_ms") else ""
    if state != "connected":
        why = f": {link['last_error']}" if link.get("last_error") else "."
        return warn(
            f"The connection to {_shown(facts.config.relay_nats_url)} is {state}{since}{why}",
            "Look whether `edged supervisor` runs, the server is reachable, and "
            "RELAY_CREDENTIALS and RELAY_CA_FILE are those of this edge.",
        )
    if not jwks.get("keys"):
        return passed(f"Connected{since}; keys are fetched with the first token.")
    age = f"{jwks['keys']} keys of {facts.config.relay_issuer}, {jwks.get('age_s')} s old"
    return passed(f"Connected{since}; {age}.")


def _shown(url: str | None) -> str:
    """A URL without what stands before @ in it: that may be a password."""
    scheme, separator, rest = (url or "").partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _utc(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
