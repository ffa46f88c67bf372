"""Certificates of links: which one this node shows, which it believes, and to which node one belongs.

Rules: 1. Both sides show a certificate of an authority in ``ca_file``, in TLS 1.3.  2. A certificate belongs
to a node if one of its DNS names or IP addresses is the host part of the node's name. If it has e-mail names,
one of them must also be the whole node name, which tells nodes of one host apart.  3. The handshake of the
link is tied to the caller's certificate, which both ends know.  4. New files take effect for connections to
come, all of them or none; open ones keep theirs.

TLS adds an identity, given by an authority, to the proof of the cookie. The seal of the link
(:mod:`~gossamer.distribution.links.seal`) stays inside, so that nothing depends on TLS alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Self

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gossamer.certificates import Certificates
from gossamer.config import LinkTlsConfig, TlsConfig
from gossamer.distribution.errors import TlsError
from gossamer.files import FileError

log = structlog.get_logger(__name__)
_DER = Encoding.DER

HANDSHAKE_TIMEOUT = 5.0
"""Seconds within which the handshake of an accepted connection is expected to be over."""
COMPLAINT_INTERVAL = 60.0
"""Seconds between two log lines about handshakes that fail for the same reason."""
TLS_ADVICE = "see distribution.tls on both nodes: it is set on all nodes of a cluster or on none"


def host_of(node: str) -> str:
    """Return the host part of a node name."""
    return node.rpartition("@")[2].strip("[]")


@dataclass(frozen=True, slots=True)
class Names:
    """Names in a certificate."""

    hosts: tuple[str, ...]
    """DNS names and IP addresses."""
    nodes: tuple[str, ...]
    """E-mail names, which are whole node names."""

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, certificate: bytes) -> Self:
        """Read them from a certificate in DER; a mesh sees the same few again and again."""
        # One that cannot be read names nobody.
        with suppress(x509.ExtensionNotFound, ValueError):
            found = x509.load_der_x509_certificate(certificate)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
            hosts = (*names.get_values_for_type(x509.DNSName), *addresses)
            return cls(hosts, tuple(names.get_values_for_type(x509.RFC822Name)))
        return cls((), ())

    def fit(self, node: str) -> bool:
        """Return whether the certificate belongs to the node of that name."""
        host = host_of(node).lower()
        with suppress(ValueError):
            host = str(ip_address(host))
        known = {name.lower() for name in self.hosts}
        if host not in known and f"*.{host.partition('.')[2]}" not in known:
            return False
        return not self.nodes or node in self.nodes

    def node(self, part: str) -> str | None:
        """Return a node name that fits: a whole one of its own, or ``part`` at one of its hosts."""
        candidates = (*self.nodes, *(f"{part}@{host}" for host in self.hosts if "*" not in host))
        return next(filter(self.fit, candidates), None)

    def __str__(self) -> str:
        return f"a certificate for {', '.join((*self.hosts, *self.nodes)) or 'no name'}"


def expected_names(node: str) -> str:
    """Describe a certificate of the node of that name."""
    return f"one that names {host_of(node)} and, if it has e-mail names, {node}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Certificate, key and authorities, as read at one time."""

    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    names: Names
    binding: bytes
    """Identity of the channels that this certificate opens: a hash of it."""
    context: ssl.SSLContext
    """Context of outgoing connections."""


class LinkCertificates:
    """Certificates of the links of one node, ``node``; without a name, of a client that takes any.

    Blocks while it reads. Raises FileError, as :meth:`load` does.
    """

    def __init__(self, config: LinkTlsConfig, node: str = "") -> None:
        self._config = config
        self._node = node
        self.identity = self._read()
        listening = TlsConfig(
            cert_file=config.cert_file,
            key_file=config.key_file,
            hosts={},
            ca_file=config.ca_file,
            verify="require",
        )
        self._listening = Certificates(listening, minimum=ssl.TLSVersion.TLSv1_3)
        self.server = self._listening.context
        """Context of accepted connections, which logs handshakes that fail; the same for ever."""
        self.server.sslobject_class = _accepted(self)
        self._complaint = ("", -COMPLAINT_INTERVAL)

    def files(self) -> Iterator[Path]:
        """Files that are read."""
        return self._listening.files()

    def load(self) -> None:
        """Read the files again, for connections to come; may run in any thread.

        Raises:
            FileError: a file cannot be used; nothing changed.
        """
        identity = self._read()
        self._listening.load()
        self.identity = identity

    def _read(self) -> Identity:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            authorities = (file := config.ca_file).read_bytes()
            key = (file := config.key_file).read_bytes()
            certificate = (file := config.cert_file).read_bytes()
            context.load_cert_chain(config.cert_file, config.key_file)
            der = x509.load_pem_x509_certificate(certificate).public_bytes(_DER)
            file = config.ca_file
            context.load_verify_locations(file)
        except (OSError, ValueError) as error:
            expected = "PEM, and a key that belongs to its certificate"
            raise FileError(file, error, expected=expected, of="TLS of links") from None
        names = Names.of(der)
        if self._node and not names.fit(self._node):
            expected = f"{expected_names(self._node)}: have it issued for node.name, {self._node}"
            raise FileError(config.cert_file, f"it is {names}", expected=expected, of="TLS of links")
        binding = hashlib.sha256(der).digest()
        return Identity(certificate, key, authorities, names, binding, context)

    def await_handshake(self) -> asyncio.TimerHandle:
        """Expect a handshake of a caller to be over in time, else log that it failed."""
        loop, why = asyncio.get_running_loop(), f"not over in {HANDSHAKE_TIMEOUT:g} s"
        return loop.call_later(HANDSHAKE_TIMEOUT, self.refused, f"{why}: the caller ended it or is silent")

    def refused(self, error: str) -> None:
        """Log that a caller's TLS handshake failed; the same reason once a minute, since callers retry."""
        last, at = self._complaint
        now = time.monotonic()
        if error == last and now < at + COMPLAINT_INTERVAL:
            return
        self._complaint = (error, now)
        expected = f"a caller with TLS 1.3 and a certificate of an authority in {self._config.ca_file}"
        log.warning("tls_handshake_refused", error=error, expected=expected, advice="see the caller's log")

    def not_shown(self, address: str, why: str) -> TlsError:
        """Build the error of a peer that ended the handshake, or that has no TLS."""
        expected = f"a node that takes TLS and the certificate in {self._config.cert_file}"
        return TlsError(address=address, got=why, expected=expected, advice=TLS_ADVICE)

    def not_believed(self, address: str, why: str, name: str) -> TlsError:
        """Build the error of a peer whose certificate this node does not believe."""
        expected = f"{expected_names(name)}, of an authority in {self._config.ca_file}"
        return TlsError(address=address, got=why, expected=expected, advice=TLS_ADVICE)


def _accepted(certificates: LinkCertificates) -> type[ssl.SSLObject]:
    """Return the class of accepted connections; the loop keeps failures of their handshakes to itself."""

    class Accepted(ssl.SSLObject):
        _due: asyncio.TimerHandle | None = None

        def do_handshake(self) -> None:
            # A caller that does not believe this node just goes, which the loop tells nobody.
            self._due = self._due or certificates.await_handshake()
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self._due.cancel()
                certificates.refused(error.reason or str(error))
                raise
            self._due.cancel()

    return Accepted
