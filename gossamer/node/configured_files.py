"""The files that a configuration names, read as the node reads them: what is missing, unreadable or wrong.

Each is opened by what uses it in service, so that a check and a start cannot disagree. Meant are files that
must be there before the node starts: of users, rules and keys, and of TLS, that of etcd included.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from gossamer.certificates import Certificates
from gossamer.config import Config, TlsConfig
from gossamer.config.discovery import EtcdDiscovery
from gossamer.distribution import LinkCertificates
from gossamer.errors import ConfigProblem, UsageError
from gossamer.mqtt import Acl, PasswordFile, Scram, Tokens

Named = list[tuple[str, Path | None]]


def file_problems(config: Config) -> list[ConfigProblem]:
    """One problem for each file that cannot be used. Blocks; paths are relative to the working directory."""
    problems: list[ConfigProblem] = []
    if config.mqtt.server.enable:
        auth = config.mqtt.auth
        for name, file, read in (
            ("password_file", auth.password_file, PasswordFile),
            ("scram_file", auth.scram_file, Scram),
            ("acl_file", auth.acl_file, Acl),
        ):
            if file is not None:
                problems += _try(f"mqtt.auth.{name}", partial(read, file))
        if auth.jwt is not None:
            problems += _try("mqtt.auth.jwt.public_key_file", partial(Tokens, auth.jwt))
        for number, listener in enumerate(config.mqtt.server.listeners):
            if listener.tls is not None:
                key = f"mqtt.server.listeners[{number}].tls"
                problems += _together(key, _named(key, listener.tls), partial(Certificates, listener.tls))
    links = config.distribution.tls
    if links is not None:
        key = "distribution.tls"
        used: Named = [
            (f"{key}.{name}", getattr(links, name)) for name in ("cert_file", "key_file", "ca_file")
        ]
        problems += _together(key, used, partial(LinkCertificates, links, config.node.name))
    api = config.api.tls if config.api.enable else None
    if api is not None:
        key = "api.tls"
        shown: Named = [(f"{key}.cert_file", api.cert_file), (f"{key}.key_file", api.key_file)]
        problems += _together(key, shown, partial(Certificates, api))
    discovery = config.cluster.discovery
    if isinstance(discovery, EtcdDiscovery):
        tls, key = discovery.etcd.tls, "cluster.discovery.etcd.tls"
        named: Named = [(f"{key}.ca", tls.ca), (f"{key}.cert", tls.cert), (f"{key}.key", tls.key)]
        problems += _together(key, named, partial(_pair, tls.cert, tls.key))
    return problems


def _named(key: str, tls: TlsConfig) -> Named:
    found: Named = []
    for name, host in ((key, tls), *((f"{key}.hosts.{name}", host) for name, host in tls.hosts.items())):
        found += [(f"{name}.cert_file", host.cert_file), (f"{name}.key_file", host.key_file)]
    return [*found, (f"{key}.ca_file", tls.ca_file), (f"{key}.crl_file", tls.crl_file)]


def _together(key: str, named: Named, read: Callable[[], object]) -> list[ConfigProblem]:
    """Files that are used together: each that cannot be read; or, where all can, what is wrong with them."""
    unread = [p for name, file in named if file is not None for p in _try(name, file.read_bytes)]
    return unread or list(_try(key, read))


def _pair(cert: Path | None, key: Path | None) -> None:
    if cert is not None and key is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key)
        except ssl.SSLError as error:
            raise OSError(0, error.reason or str(error), str(cert)) from None


def _try(key: str, read: Callable[[], object]) -> Iterator[ConfigProblem]:
    try:
        read()
    except UsageError as error:
        got, _, expected = str(error).partition("; expected ")
        yield ConfigProblem(key, got, expected or "a file that can be used")
    except OSError as error:
        yield ConfigProblem(key, f"{error.filename}: {error.strerror}", "a file in PEM that can be read")
