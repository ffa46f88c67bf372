"""TLS of a listener: certificates by host name, clients' certificates, and new ones without a restart.

The context that listens never changes. Every handshake is handed on, by its ``server_name`` callback, to the
context of the host it asks for, and :meth:`Certificates.load` replaces those all at once or, where a file
cannot be used, not at all. Connections that are open keep what they have.

Where clients show certificates no handshake is short: without session tickets, a certificate that was
revoked, or whose authority is gone, is of no use from the next connection on.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gossamer.config import TlsConfig, TlsHostConfig
from gossamer.files import FileError

_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


class Certificates:
    """The contexts of one listener; ``context`` is what listens. ``minimum`` is the oldest version."""

    def __init__(self, config: TlsHostConfig, *, minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2) -> None:
        if not isinstance(config, TlsConfig):
            # A certificate alone: for one host, and clients show none.
            config = TlsConfig(cert_file=config.cert_file, key_file=config.key_file, hosts={})
        self._config = config
        self._minimum = minimum
        self._default, self._hosts = self._make()
        # It carries the certificate too: some libraries refuse a handshake before they call back.
        self.context = self._context(config.cert_file, config.key_file)
        self.context.sni_callback = self._choose

    def files(self) -> Iterator[Path]:
        """Files that are read."""
        for host in (self._config, *self._config.hosts.values()):
            yield host.cert_file
            yield host.key_file
        for file in (self._config.ca_file, self._config.crl_file):
            if file is not None:
                yield file

    def load(self) -> None:
        """Read the files again, for handshakes to come; may run in any thread.

        Raises:
            FileError: a file cannot be used; nothing changed.
        """
        self._default, self._hosts = self._make()

    def _make(self) -> tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]:
        hosts = {
            name.lower(): self._context(host.cert_file, host.key_file)
            for name, host in self._config.hosts.items()
        }
        return self._context(self._config.cert_file, self._config.key_file), hosts

    def _context(self, certificate: Path, key: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        file = certificate
        try:
            for file in (key, certificate):
                # OpenSSL does not say which of the two it could not open.
                file.open("rb").close()
            context.load_cert_chain(certificate, key)
            if self._config.ca_file is not None:
                file = self._config.ca_file
                context.load_verify_locations(file)
            if self._config.crl_file is not None:
                file = self._config.crl_file
                context.load_verify_locations(file)
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        except (OSError, ssl.SSLError) as error:
            expected = "PEM, and a key that belongs to its certificate"
            raise FileError(file, error, expected=expected, of="TLS") from None
        context.verify_mode = _VERIFY[self._config.verify]
        if context.verify_mode != ssl.CERT_NONE:
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _choose(self, socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        socket.context = self._hosts.get((name or "").lower(), self._default)


def user_of(certificate: dict[str, Any] | None, part: str) -> str | None:
    """The user name in a verified certificate: its common name, or its first alternative name."""
    if not certificate:
        return None
    if part == "san":
        names = [
            value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "email", "URI")
        ]
        return names[0] if names else None
    return subject_of(certificate, "commonName")


def subject_of(certificate: dict[str, Any] | None, name: str) -> str | None:
    """Return one part of the subject of a verified certificate, by its name in ``getpeercert``."""
    for relative in (certificate or {}).get("subject", ()):
        for key, value in relative:
            if key == name:
                return str(value)
    return None
