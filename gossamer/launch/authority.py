"""Authority of a cluster on one machine: its certificates in the data directory, for ``gossamer up --tls``.

Rules: 1. The authority is made once and kept, so that clients go on trusting it; certificates of nodes are
issued again at each start.  2. Keys are readable by their owner only.  3. A certificate of a node names
127.0.0.1, localhost and the whole node name, so that no node can pass for another one.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gossamer.errors import UsageError
from gossamer.files import replace_file
from gossamer.launch.plan import CA_FILE

_PEM = serialization.Encoding.PEM
_HOUR = datetime.timedelta(hours=1)
_YEAR = datetime.timedelta(days=365)
_ROLES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
_USES = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")


class Authority:
    """Certificate authority in ``directory``, which is made if it is missing.

    Raises:
        UsageError: its files cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self.file = directory / CA_FILE
        """Certificate of the authority, in PEM: what clients need."""
        key_file = self.file.with_suffix(".key")
        try:
            if not self.file.exists():
                self._key = ec.generate_private_key(ec.SECP256R1())
                name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gossamer up")])
                self._name = name
                public = self._key.public_key()
                identifier = x509.SubjectKeyIdentifier.from_public_key(public)
                _write_key(key_file, self._key)
                made = self._sign(name, public, [identifier], years=10)
                replace_file(self.file, made.public_bytes(_PEM), mode=0o644)
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            self._name = x509.load_pem_x509_certificate(self.file.read_bytes()).subject
        except (OSError, ValueError) as error:
            got = f"{self.file} and {key_file.name} ({error})"
            raise UsageError(f"--tls: got {got}, expected those of a former run; remove both") from error
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - made above
        self._key = key

    def issue(self, stem: str, names: Iterable[x509.GeneralName]) -> None:
        """Write STEM.pem and STEM.key, a certificate for ``names`` and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            _ROLES,
            x509.SubjectAlternativeName(names),
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        certificate = self._sign(subject, key.public_key(), extensions)
        _write_key(self._directory / f"{stem}.key", key)
        replace_file(self._directory / f"{stem}.pem", certificate.public_bytes(_PEM), mode=0o644)

    def _sign(
        self,
        subject: x509.Name,
        public: ec.EllipticCurvePublicKey,
        extensions: list[x509.ExtensionType],
        *,
        years: int = 1,
    ) -> x509.Certificate:
        ca, now = years > 1, datetime.datetime.now(datetime.UTC)
        until = now + years * _YEAR
        # From an hour ago, for clocks that are a little late.
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder(self._name, subject, public, number, now - _HOUR, until)
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), True)
        signs = dict.fromkeys(("key_cert_sign", "crl_sign"), ca)
        never = dict.fromkeys((*_USES, "encipher_only", "decipher_only"), False)
        builder = builder.add_extension(x509.KeyUsage(digital_signature=True, **signs, **never), True)
        for extension in extensions:
            builder = builder.add_extension(extension, False)
        return builder.sign(self._key, hashes.SHA256())


def local_names(host: str, *nodes: str) -> list[x509.GeneralName]:
    """Return the names of what listens on this machine: ``host``, localhost, and whole names of nodes."""
    address = x509.IPAddress(ipaddress.ip_address(host))
    return [address, x509.DNSName("localhost"), *map(x509.RFC822Name, nodes)]


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    replace_file(file, secret, mode=0o600)
