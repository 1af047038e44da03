"""A real nats-server, for tests; plain, or with TLS and one user for each edge."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from tests.bench.nats_keys import NatsKey
from tests.bench.token_issuer import rsa_key
from tests.bench.waiting import HANGS_S

# The configuration of docs/relay.md; test_relay_docs holds the two equal.
USERS = """
authorization {
  users = [
    { user: front, password: $FRONT_PASSWORD
      permissions: { publish: "edged.*.down", subscribe: "edged.*.up.>" } }
    { user: edge-1, password: $EDGE_1_PASSWORD
      permissions: { publish: "edged.edge-1.up.>", subscribe: "edged.edge-1.down" } }
    { user: edge-2, password: $EDGE_2_PASSWORD
      permissions: { publish: "edged.edge-2.up.>", subscribe: "edged.edge-2.down" } }
  ]
}
"""
# The same with keys instead of passwords.
NKEY_USERS = """
authorization {
  users = [
    { nkey: $FRONT_NKEY
      permissions: { publish: "edged.*.down", subscribe: "edged.*.up.>" } }
    { nkey: $EDGE_1_NKEY
      permissions: { publish: "edged.edge-1.up.>", subscribe: "edged.edge-1.down" } }
  ]
}
"""
# As USERS, for fronts with RELAY_INVENTORY: jetstream.
JETSTREAM_USERS = """
jetstream { store_dir: jetstream }
authorization {
  users = [
    { user: front, password: $FRONT_PASSWORD
      permissions: {
        publish: ["edged.*.down", "$KV.edged_fleet.*",
                  "$JS.API.STREAM.INFO.KV_edged_fleet", "$JS.API.STREAM.CREATE.KV_edged_fleet",
                  "$JS.API.CONSUMER.CREATE.KV_edged_fleet",
                  "$JS.API.CONSUMER.CREATE.KV_edged_fleet.>",
                  "$JS.API.CONSUMER.INFO.KV_edged_fleet.*", "$JS.FC.KV_edged_fleet.>"]
        subscribe: ["edged.*.up.>", "_INBOX.>"] } }
    { user: edge-1, password: $EDGE_1_PASSWORD
      permissions: { publish: "edged.edge-1.up.>", subscribe: "edged.edge-1.down" } }
  ]
}
"""
PASSWORDS = {"FRONT_PASSWORD": "f-pw", "EDGE_1_PASSWORD": "e1-pw", "EDGE_2_PASSWORD": "e2-pw"}
NKEYS = {
    "FRONT_NKEY": NatsKey("U", "front").public,
    "EDGE_1_NKEY": NatsKey("U", "edge-1").public,
}
TLS = """
tls { cert_file: "server.pem", key_file: "server.key" }
"""


class NatsServer:
    """A server that can be stopped and started again on its port.

    Args:
        directory: for its configuration, certificate and log.
        port: where it listens.
        is_guarded: with TLS and users; else open to all.
        users: who may do what, as the server's configuration has it.
    """

    def __init__(
        self, directory: Path, port: int, *, is_guarded: bool = False, users: str = USERS
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = port
        self.is_guarded = is_guarded
        self.ca_file = directory / "ca.pem"
        self._process: subprocess.Popen[bytes] | None = None
        config = f'listen: "127.0.0.1:{port}"\n'
        if is_guarded:
            make_certificate(directory)
            config += TLS + users
        (directory / "nats.conf").write_text(config)

    @property
    def url(self) -> str:
        return f"{'tls' if self.is_guarded else 'nats'}://127.0.0.1:{self.port}"

    def credentials(self, user: str) -> Path:
        """A file with user and password, as RELAY_CREDENTIALS wants it."""
        path = self.directory / f"{user}.credentials"
        name = user.upper().replace("-", "_") + "_PASSWORD"
        path.write_text(f"{user}:{PASSWORDS[name]}\n")
        return path

    def start(self) -> None:
        program = shutil.which("nats-server") or "/usr/sbin/nats-server"
        with (self.directory / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-c", "nats.conf"],
                cwd=self.directory,
                stdout=log,
                stderr=log,
                env={**os.environ, **PASSWORDS, **NKEYS},
            )
        deadline = time.monotonic() + HANGS_S
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), 0.2),
            ):
                return
            time.sleep(0.05)  # noqa: TID251
        raise AssertionError((self.directory / "nats.log").read_text())

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It is there and does nothing, until it is killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)


@contextlib.contextmanager
def running_nats(
    directory: Path, port: int, *, is_guarded: bool = False, users: str = USERS
) -> Iterator[NatsServer]:
    server = NatsServer(directory, port, is_guarded=is_guarded, users=users)
    server.start()
    try:
        yield server
    finally:
        server.stop()


SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def make_certificate(directory: Path) -> None:
    """An authority (ca.pem) and a certificate for 127.0.0.1 that it signed."""
    now = datetime.datetime.now(datetime.UTC)
    authority, server = rsa_key("authority"), rsa_key("server")
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    for name, key, subject in (
        ("ca", authority, issuer),
        ("server", server, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])),
    ):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            # Python 3.13 and later take no certificate without these, nor an authority without
            # its use.
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False,
            )
        )
        if name == "ca":
            builder = builder.add_extension(SIGNS_CERTIFICATES, critical=True)
        certificate = builder.sign(authority, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        (directory / f"{name}.pem").write_bytes(pem)
    (directory / "server.key").write_bytes(
        server.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
