"""TLS of links over gRPC, with what gRPC leaves open.

Rules: 1. gRPC takes no minimum version: the called end ends connections that are not TLS 1.3.  2. It shows a
caller nothing of the certificate that it checked but that it names the host. That a certificate belongs to
the whole node name is found out where its node calls, and a session is up only when both nodes have called.
3. It says nothing of handshakes that fail: one that brought no stream in time counts as failed, and gRPC's
own line on standard error has the reason.  4. Every handshake asks for the current certificate.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import deque
from contextlib import suppress
from typing import Any

import grpc

from gossamer.distribution.errors import TlsError
from gossamer.distribution.transport.certificates import Identity, LinkCertificates, Names

_WATCHED = 1024
_VERSION = b"TLSv1.3"


class ServerTls:
    """Credentials of a listening port, and its handshakes that have not brought a stream yet."""

    def __init__(self, certificates: LinkCertificates) -> None:
        self._certificates = certificates
        self._loop = asyncio.get_running_loop()
        self._shown = certificates.identity
        self._begun: deque[asyncio.TimerHandle] = deque()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the certificates."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._shown), self._current, require_client_authentication=True
        )

    def opened(self, context: Any) -> tuple[bytes, Names] | None:
        """Return the binding of an accepted stream and the caller's names; None: it must not be served."""
        if self._begun:
            self._begun.popleft().cancel()
        facts = context.auth_context()
        version = b"".join(facts.get("ssl_tls_version", ()))
        if version != _VERSION:
            self._certificates.refused(f"the caller speaks {version.decode() or 'an unknown version'}")
            return None
        shown = ssl.PEM_cert_to_DER_cert(b"".join(facts["x509_pem_cert"]).decode())
        return hashlib.sha256(shown).digest(), Names.of(shown)

    def _current(self) -> grpc.ServerCertificateConfiguration | None:
        # In a thread of gRPC, at every handshake; None: as before.
        with suppress(RuntimeError):
            # The loop may have closed.
            self._loop.call_soon_threadsafe(self._begin)
        identity = self._certificates.identity
        if identity is self._shown:
            return None
        self._shown = identity
        return _configuration(identity)

    def _begin(self) -> None:
        now = self._loop.time()
        while self._begun and (self._begun[0].cancelled() or self._begun[0].when() <= now):
            self._begun.popleft()
        if len(self._begun) < _WATCHED:
            self._begun.append(self._certificates.await_handshake())


def credentials_of(identity: Identity) -> grpc.ChannelCredentials:
    """Return the credentials of a caller."""
    return grpc.ssl_channel_credentials(identity.authorities, identity.key, identity.certificate)


def tls_error(certificates: LinkCertificates, name: str, address: str, failure: str) -> TlsError | None:
    """Build the error of a call that failed before the other side said anything, if TLS was the reason.

    gRPC has one code for all of it; the text tells them apart.
    """
    if "erification" in failure or "VERIFY_FAILED" in failure:
        return certificates.not_believed(address, failure, name)
    if "handshake" in failure.lower() or "Socket closed" in failure or "reset" in failure:
        return certificates.not_shown(address, failure)
    return None


def _configuration(identity: Identity) -> grpc.ServerCertificateConfiguration:
    pairs = [(identity.key, identity.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, identity.authorities)
