"""Certificates for tests, made on the spot."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)
ROLES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


class Authority:
    """A certificate authority in a directory, its own certificate in ``file``."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        public = self._key.public_key()
        identifier = x509.SubjectKeyIdentifier.from_public_key(public)
        self.certificate = self._sign(self._name, public, identifier, ca=True)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(PEM))

    @property
    def pem(self) -> str:
        return self.file.read_text()

    def issue(self, common_name: str, *hosts: str, file: str = "") -> tuple[Path, Path]:
        """Write NAME.pem and NAME.key, for names, addresses, and whole names of nodes."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        extensions = [x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), ROLES]
        certificate = self._sign(
            _name(common_name), key.public_key(), *extensions, *([names] if hosts else []), ca=False
        )
        stem = self.directory / (file or common_name)
        pem, key_file = stem.with_suffix(".pem"), stem.with_suffix(".key")
        pem.write_bytes(certificate.public_bytes(PEM))
        secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key_file.write_bytes(secret)
        return pem, key_file

    def revoke(self, *certificates: Path, renewed: datetime.timedelta = DAY) -> Path:
        """Write a list of revoked certificates, given as files, good for so long; the list's file."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder(self._name, now - DAY, now + renewed)
        for file in certificates:
            number = x509.load_pem_x509_certificate(file.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
            builder = builder.add_revoked_certificate(revoked)
        file = self.directory / "crl.pem"
        file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(PEM))
        return file

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *extensions: x509.ExtensionType,
        ca: bool,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), now - DAY, now + DAY
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), True)
        signs = dict.fromkeys(("key_cert_sign", "crl_sign"), ca)
        rest = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        never = dict.fromkeys((*rest, "encipher_only", "decipher_only"), False)
        builder = builder.add_extension(x509.KeyUsage(digital_signature=True, **signs, **never), True)
        for extension in extensions:
            builder = builder.add_extension(extension, False)
        return builder.sign(self._key, hashes.SHA256())


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    if "@" in name:
        return x509.RFC822Name(name)
    return x509.DNSName(name) if name[-1].isalpha() else x509.IPAddress(ipaddress.ip_address(name))
