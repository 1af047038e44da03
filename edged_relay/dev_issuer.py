"""``edged dev-issuer``: a token issuer for development. NOT FOR PRODUCTION: it checks no users.

``serve`` makes a key on first use and serves its public half as a JWKS on loopback, and with
``--login`` logs clients in by OAuth; ``mint`` prints a token that lives for five minutes at most.
Nothing of the daemon loads this module.
"""

from __future__ import annotations

import argparse
import base64
import http.server
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from edged.auth.claims import FLEET, HTTP_SD, MAX_HTTP_SD_LIFETIME_S
from edged.clock import SystemClock
from edged.files import resolved, write_atomically
from edged_relay.dev_login import DevLogin, LoginAnswer

WARNING: Final = (
    "edged dev-issuer is for development only. Whoever can read its key can act as any user."
)
DEFAULT_ISSUER: Final = "http://127.0.0.1:8769"
LONGEST_S: Final = 300
MAX_BODY_BYTES: Final = 64 * 1024


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    options = _parser().parse_args(arguments)
    sys.stderr.write(f"edged: {WARNING}\n")
    key = _keep_key(options.directory)
    if options.do == "mint":
        print(_mint(key, options))
        return 0
    return _serve(key, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="edged dev-issuer", description=__doc__, epilog=WARNING)
    actions = parser.add_subparsers(dest="do", required=True)
    serve = actions.add_parser("serve", help="serve the JWKS on loopback")
    serve.add_argument(
        "--port", type=int, default=8769, help="port to listen on (8769; 0: any free one)"
    )
    serve.add_argument(
        "--login", default="", metavar="USER", help="clients log in, as this user, without password"
    )
    serve.add_argument(
        "--fleet", default="*", metavar="EDGE_ID,…", help="the edges of a fleet login (*)"
    )
    mint = actions.add_parser("mint", help="print a token")
    mint.add_argument("--sub", required=True, metavar="USER", help="who: user:<USER>")
    whom = mint.add_mutually_exclusive_group(required=True)
    whom.add_argument("--edge", metavar="EDGE_ID", help="for which edge")
    whom.add_argument("--fleet", metavar="EDGE_ID,…", help="a fleet token, for these edges, or *")
    mint.add_argument("--issuer", default=DEFAULT_ISSUER, metavar="URL", help="RELAY_ISSUER")
    mint.add_argument(
        "--lives-s",
        type=int,
        default=LONGEST_S,
        metavar="SECONDS",
        help="300 at most; 2592000 with --tools fleet/http_sd",
    )
    for action in (serve, mint):
        action.add_argument("--tools", default="", metavar="TOOL[:SCOPE],…", help="what is allowed")
        action.add_argument("--danger", action="store_true", help="allow dangerous tools, too")
        action.add_argument(
            "--directory", type=Path, default=Path("dev-issuer"), help="the directory of its key"
        )
    return parser


def _keep_key(directory: Path) -> rsa.RSAPrivateKey:
    """The kept key, made on first use and readable for this user alone."""
    path = directory / "key.pem"
    if not path.exists():
        made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        os.umask(0o077)
        write_atomically(
            resolved(path.absolute()),
            made.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode("ascii"),
        )
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise SystemExit(f"{path} is no RSA key.")
    return key


def _mint(key: rsa.RSAPrivateKey, options: argparse.Namespace) -> str:
    edges = None if options.fleet is None else _entries(options.fleet)
    return _token(
        key,
        issuer=options.issuer,
        sub=options.sub,
        edge=options.edge if edges is None else None,
        edges=edges or [],
        tools=_entries(options.tools),
        danger=options.danger,
        lives_s=options.lives_s,
    )


def _token(
    key: rsa.RSAPrivateKey,
    *,
    issuer: str,
    sub: str,
    edge: str | None,
    edges: list[str],
    tools: list[str],
    danger: bool,
    lives_s: int = LONGEST_S,
) -> str:
    """A token for one edge; or for the fleet, where ``edge`` is ``None``."""
    now_s = SystemClock().wall_ms() // 1000
    longest_s = MAX_HTTP_SD_LIFETIME_S if tools == [HTTP_SD] else LONGEST_S
    if edge is None:
        whom: dict[str, Any] = {"aud": FLEET, "edges_allow": edges}
    else:
        whom = {"aud": f"edge:{edge}", "edge_id": edge}
    claims = {
        "iss": issuer,
        **whom,
        "sub": f"user:{sub}",
        "iat": now_s,
        "exp": now_s + min(lives_s, longest_s),
        "tools_allow": tools,
        "danger_allow": danger,
    }
    header = {"alg": "RS256", "typ": "JWT", "kid": _kid(key)}
    signed = ".".join(_b64(json.dumps(part).encode("ascii")) for part in (header, claims))
    signature = key.sign(signed.encode("ascii"), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_b64(signature)}"


def _entries(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry]


def _serve(key: rsa.RSAPrivateKey, options: argparse.Namespace) -> int:
    keys = json.dumps({"keys": [_jwk(key)]}).encode("ascii")
    login: DevLogin | None = None

    class Issuer(http.server.BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            found = login.get(path, query) if login is not None else None
            # Whatever else is asked for has always been answered with the keys.
            self._answer(found or LoginAnswer(200, keys))

        def do_POST(self) -> None:
            size = min(int(self.headers.get("Content-Length") or 0), MAX_BODY_BYTES)
            path = self.path.partition("?")[0]
            found = login.post(path, self.rfile.read(size)) if login is not None else None
            self._answer(found or LoginAnswer(404))

        def _answer(self, answer: LoginAnswer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Issuer) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        if options.login:
            login = DevLogin(
                url,
                user=options.login,
                mint=lambda edge: _token(
                    key,
                    issuer=url,
                    sub=options.login,
                    edge=edge,
                    edges=_entries(options.fleet),
                    tools=_entries(options.tools),
                    danger=options.danger,
                ),
                clock=SystemClock(),
            )
        print(json.dumps({"jwks_url": f"{url}/jwks.json", "issuer": url}), flush=True)
        server.serve_forever()
    return 0


def _jwk(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    return {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": _kid(key),
        "n": _b64(numbers.n.to_bytes(size, "big")),
        "e": _b64(numbers.e.to_bytes(3, "big")),
    }


def _kid(key: rsa.RSAPrivateKey) -> str:
    """A name for the key that follows from it."""
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public)
    return f"dev-{digest.finalize().hex()[:16]}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
