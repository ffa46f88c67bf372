"""The etcd strategy's calls of etcd: few, each with a time limit, at whichever endpoint answers.

Rules: 1. No call is without a deadline, since a frozen server keeps its connections open for ever.  2. An
endpoint that does not answer is left for the next one; the channel to it is closed, which also renews an
expired token.  3. Ranges are read in pages, all at one revision.  4. Every failure is a
:class:`DiscoveryFailedError` that names all endpoints, in words that do not depend on which was asked last.

It stands on the stubs of ``aetcd``. Rejected: its client, which has no TLS and no limit on a range; its lock,
which leaves the lease of each failed try.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aetcd.rpc as rpc
import grpc

from gossamer.config import Endpoint
from gossamer.config.discovery import EtcdConfig, EtcdTlsConfig
from gossamer.discovery.strategy import DiscoveryFailedError

PAGE = 200
MAX_ITEMS = 10_000
_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    # Two nodes in one process must not share a connection, nor a restarted client a dead one.
    ("grpc.use_local_subchannel_pool", 1),
)
_SILENT = "no answer within {:g} s; is it overloaded, frozen, or without a quorum?"
_TLS_PROBLEMS = {
    "CERTIFICATE_VERIFY_FAILED": "has a certificate that tls.ca does not vouch for",
    "Hostname Verification": "has a certificate for another host; tls.server_name says which to expect",
    "_CERTIFICATE": "refuses this node's certificate; it wants one of its own authority in tls.cert",
    "security handshaker": "cannot be asked with these files; are tls.ca, tls.cert and tls.key PEM, does the "
    "key belong to the certificate?",
    "handshake failed": "fails at TLS; does etcd speak it there?",
}
"""Meanings of gRPC's words for a lost connection, the more telling first."""
_NEXT_ENDPOINT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


@dataclass(frozen=True, slots=True)
class Item:
    """A key, its value, and the revision at which it was created."""

    key: str
    value: bytes
    created: int


class _Session:
    """A channel to one endpoint, logged in."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.kv: Any = rpc.KVStub(channel)
        self.leases: Any = rpc.LeaseStub(channel)
        self.metadata: tuple[tuple[str, str], ...] = ()


class EtcdClient:
    """Client of one etcd cluster with several endpoints, of which one is in use.

    For one process at a time: leaving an endpoint ends all calls under way there.
    """

    def __init__(self, endpoints: Sequence[Endpoint], config: EtcdConfig) -> None:
        self._endpoints = tuple(endpoints)
        self._config = config
        # How long one connect may take: longer than a call, so that a server which is frozen always shows in
        # the same way, and one that is far away can be reached at all.
        connect = ("grpc.min_reconnect_backoff_ms", round(config.timeout * 1000) + 1000)
        self._options = (*_OPTIONS, connect)
        self._current = 0
        self._session: _Session | None = None

    def another(self) -> EtcdClient:
        """The same, for another process."""
        return EtcdClient(self._endpoints, self._config)

    # -- keys

    async def range(self, prefix: str) -> list[Item]:
        """Return everything below ``prefix`` at one revision."""
        start, end = prefix.encode(), _range_end(prefix)
        revision, items = 0, list[Item]()
        while True:
            request = rpc.RangeRequest(key=start, range_end=end, limit=PAGE, revision=revision)
            answer = await self._ask(lambda s: s.kv.Range, request)
            revision = revision or answer.header.revision
            items += map(_item, answer.kvs)
            if not answer.more or not answer.kvs or len(items) >= MAX_ITEMS:
                return items
            start = answer.kvs[-1].key + b"\0"

    async def predecessor(self, prefix: str, created: int) -> Item | None:
        """The youngest key below ``prefix`` that is older than revision ``created``."""
        request = rpc.RangeRequest(
            key=prefix.encode(),
            range_end=_range_end(prefix),
            limit=1,
            max_create_revision=created - 1,
            sort_order=rpc.RangeRequest.DESCEND,
            sort_target=rpc.RangeRequest.CREATE,
        )
        answer = await self._ask(lambda s: s.kv.Range, request)
        return _item(answer.kvs[0]) if answer.kvs else None

    async def create(self, key: str, value: bytes, lease: int) -> int:
        """Make ``key`` unless it is there; gives back the revision at which it was created."""
        put = rpc.PutRequest(key=key.encode(), value=value, lease=lease)
        get = rpc.RangeRequest(key=key.encode(), limit=1)
        request = rpc.TxnRequest(
            compare=[_created(key, 0)],
            success=[rpc.RequestOp(request_put=put)],
            failure=[rpc.RequestOp(request_range=get)],
        )
        answer = await self._ask(lambda s: s.kv.Txn, request)
        if answer.succeeded:
            return int(answer.header.revision)
        return int(answer.responses[0].response_range.kvs[0].create_revision)

    async def put_if(self, key: str, value: bytes, lease: int, *, guard: str, created: int) -> bool:
        """Put ``key`` while ``guard`` is still the one created at revision ``created``."""
        put = rpc.PutRequest(key=key.encode(), value=value, lease=lease)
        request = rpc.TxnRequest(compare=[_created(guard, created)], success=[rpc.RequestOp(request_put=put)])
        return bool((await self._ask(lambda s: s.kv.Txn, request)).succeeded)

    # -- leases

    async def grant(self, ttl: float) -> int:
        """A new lease."""
        return int((await self._ask(lambda s: s.leases.LeaseGrant, rpc.LeaseGrantRequest(TTL=round(ttl)))).ID)

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys, unless it is gone."""
        request = rpc.LeaseRevokeRequest(ID=lease)
        await self._ask(lambda s: s.leases.LeaseRevoke, request, ignored=grpc.StatusCode.NOT_FOUND)

    async def keep_alive(self, lease: int) -> None:
        """Renew a lease, unless it is gone."""

        def renew(session: _Session) -> Callable[..., Awaitable[object]]:
            return lambda request, **options: session.leases.LeaseKeepAlive([request], **options).read()

        await self._ask(renew, rpc.LeaseKeepAliveRequest(ID=lease))

    # -- the connection

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.channel.close()

    @property
    def endpoint(self) -> str:
        """The one in use."""
        return str(self._endpoints[self._current])

    @property
    def _where(self) -> str:
        return f"etcd {', '.join(map(str, self._endpoints))}"

    async def _ask(
        self,
        method: Callable[[_Session], Callable[..., Awaitable[object]]],
        request: object,
        *,
        ignored: grpc.StatusCode | None = None,
    ) -> Any:
        """Make one call, at each endpoint until one answers; None if the answer is the error ``ignored``."""
        problems: dict[str, str] = {}
        # Once more than there are endpoints: the token of the only one may have run out.
        for _ in range(len(self._endpoints) + bool(self._config.username)):
            endpoint = self.endpoint
            try:
                session = await self._open()
                async with asyncio.timeout(self._config.timeout + 1):
                    call = method(session)
                    return await call(request, timeout=self._config.timeout, metadata=session.metadata)
            except (grpc.aio.AioRpcError, TimeoutError) as error:
                code = error.code() if isinstance(error, grpc.aio.AioRpcError) else None
                if code is not None and code is ignored:
                    return None
                self._current = (self._current + 1) % len(self._endpoints)
                await self.close()
                problems[endpoint] = self._problem(error)
                if code is not None and code not in _NEXT_ENDPOINT:
                    raise DiscoveryFailedError(self._where, problems[endpoint]) from None
        if len(set(problems.values())) == 1:
            raise DiscoveryFailedError(self._where, next(iter(problems.values())))
        told = "; ".join(f"{endpoint} {problem}" for endpoint, problem in sorted(problems.items()))
        raise DiscoveryFailedError(self._where, told)

    async def _open(self) -> _Session:
        if self._session is not None:
            return self._session
        session = _Session(await self._channel())
        if self._config.username:
            password = self._config.password.get_secret_value() if self._config.password else ""
            request = rpc.AuthenticateRequest(name=self._config.username, password=password)
            stub: Any = rpc.AuthStub(session.channel)
            try:
                answer = await stub.Authenticate(request, timeout=self._config.timeout)
            except grpc.aio.AioRpcError:
                await session.channel.close()
                raise
            session.metadata = (("token", answer.token),)
        self._session = session
        return session

    async def _channel(self) -> object:
        tls = self._config.tls
        if not tls.on:
            return grpc.aio.insecure_channel(self.endpoint, options=self._options)
        try:
            # Read again for each channel: certificates are renewed.
            ca, key, cert = await asyncio.to_thread(_read_all, tls)
        except OSError as error:
            problem = f"cannot read {error.filename}: {error.strerror}"
            raise DiscoveryFailedError(self._where, problem) from None
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        options = self._options
        if tls.server_name:
            options = (*options, ("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(self.endpoint, credentials, options=options)

    def _problem(self, error: grpc.aio.AioRpcError | TimeoutError) -> str:
        """Say what is wrong with an endpoint, for people."""
        if isinstance(error, TimeoutError):
            return _SILENT.format(self._config.timeout)
        details = error.details() or ""
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:
                # Without the addresses and times that gRPC puts in, or each try would be news.
                for sign, problem in _TLS_PROBLEMS.items():
                    if sign in details:
                        return problem
                return "cannot be reached; does etcd run there, does it want TLS?"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return _SILENT.format(self._config.timeout)
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                return f"refused: {details}; check username and the roles of that user"
            case grpc.StatusCode.INVALID_ARGUMENT if "auth" in details or "user name" in details:
                return f"refused: {details}; check username and password"
            case code:
                return f"{code.name.lower().replace('_', ' ')}: {details}"


def _item(kv: Any) -> Item:
    return Item(kv.key.decode(errors="replace"), kv.value, int(kv.create_revision))


def _created(key: str, revision: int) -> object:
    return rpc.Compare(
        key=key.encode(),
        target=rpc.Compare.CREATE,
        result=rpc.Compare.EQUAL,
        create_revision=revision,
    )


def _range_end(prefix: str) -> bytes:
    """The first key after all those that begin with ``prefix``, which ends with a slash."""
    return prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1])


def _read_all(tls: EtcdTlsConfig) -> list[bytes | None]:
    # Left to itself, gRPC takes authorities that it brings along.
    system = ssl.get_default_verify_paths().cafile
    authorities = tls.ca or (Path(system) if system else None)
    return [None if path is None else path.read_bytes() for path in (authorities, tls.key, tls.cert)]
