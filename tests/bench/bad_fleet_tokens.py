"""Every sort of fleet token that must be refused, by the name of what is wrong with it."""

from __future__ import annotations

from typing import Any

from tests.bench.bad_tokens import WRONG_CLAIMS, wrong_times
from tests.bench.token_issuer import TokenIssuer

WRONG_EDGES: dict[str, dict[str, Any]] = {
    "edges_allow missing": {"edges_allow": ...},
    "edges_allow null": {"edges_allow": None},
    "edges_allow empty": {"edges_allow": []},
    "edges_allow a string": {"edges_allow": "edge-1"},
    "edges_allow an object": {"edges_allow": {"edge-1": True}},
    "edges_allow true": {"edges_allow": True},
    "edges_allow of numbers": {"edges_allow": [1]},
    "edges_allow nested": {"edges_allow": [["edge-1"]]},
    "edges_allow an empty entry": {"edges_allow": ["edge-1", ""]},
    "edges_allow a star among others": {"edges_allow": ["*", "edge-1"]},
    "edges_allow two stars": {"edges_allow": ["*", "*"]},
    "edges_allow a pattern": {"edges_allow": ["edge-*"]},
    "edges_allow a subject": {"edges_allow": ["edge-1.down"]},
    "edges_allow with a line end": {"edges_allow": ["edge-1\n"]},
    "edges_allow endless": {"edges_allow": [f"e{i}" for i in range(1_001)]},
    "edge_id besides": {"edge_id": "edge-1"},
    "edge_id null besides": {"edge_id": None},
    "aud of one edge": {"aud": "edge:edge-1"},
    "aud upper case": {"aud": "Fleet"},
    "aud a list with it": {"aud": ["fleet"]},
    "lives 30 days for more than http_sd": {
        "tools_allow": ["fleet/http_sd", "fleet__list_edges"],
        "lives_s": 30 * 86_400,
    },
    "lives 30 days for http_sd and an entry that cannot be read": {
        "tools_allow": ["fleet/http_sd", "*"],
        "lives_s": 30 * 86_400,
    },
    "lives longer than 30 days for http_sd": {
        "tools_allow": ["fleet/http_sd"],
        "lives_s": 30 * 86_400 + 1,
    },
}
NOT_OF_THE_FLEET = ("edge_id", "aud another edge", "aud without prefix", "aud a longer id")


def fleet_claims(**changes: Any) -> dict[str, Any]:
    """What makes the claims of a good edge token those of a good fleet token, with changes."""
    return {"aud": "fleet", "edge_id": ..., "edges_allow": ["edge-1", "edge-2"], **changes}


HEALED_BY_TIME = ("iat 31 s ahead", "nbf in the future")


def lasting_bad_fleet_tokens(issuer: TokenIssuer) -> dict[str, str]:
    """Those that are still bad a minute later, for tests by the machine's clock."""
    made = bad_fleet_tokens(issuer)
    return {name: token for name, token in made.items() if name not in HEALED_BY_TIME}


def bad_fleet_tokens(issuer: TokenIssuer) -> dict[str, str]:
    """What is wrong → the token."""
    wrong = {
        name: claims
        for name, claims in {**WRONG_CLAIMS, **wrong_times(issuer.now_s)}.items()
        if not name.startswith(NOT_OF_THE_FLEET)
    } | WRONG_EDGES
    made = {}
    for name, changes in wrong.items():
        lives_s = changes.get("lives_s")
        claims = {key: value for key, value in changes.items() if key != "lives_s"}
        if lives_s is not None:
            claims["exp"] = issuer.now_s + lives_s
        made[name] = issuer.mint(**fleet_claims(**claims))
    return made
