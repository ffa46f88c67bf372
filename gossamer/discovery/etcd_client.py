"""What the etcd strategy asks of etcd: few calls, each with a time limit, at whichever endpoint answers.

Rules: 1. No call is without a deadline, since a frozen server keeps its connections open for ever.  2. An
endpoint that does not answer is left for the next one; the channel to it is closed, which also renews an
expired token.  3. Ranges are read in pages, all at one revision.  4. Every failure is a
:class:`DiscoveryFailedError` that names all endpoints, in words that do not depend on which was asked last.

It stands on the stubs of ``aetcd``. Rejected: its client, which has no TLS and no limit on a range; its
watcher, which loses its place when the server goes; its lock, which leaves the lease of each failed try.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aetcd.rpc as rpc
import grpc

from gossamer.discovery.strategy import DiscoveryFailedError
from gossamer.network import Address

__all__ = ["EtcdClient", "EtcdTls", "Events", "Item", "WatchBrokenError"]

T = TypeVar("T")

PAGE = 200
MAX_ITEMS = 10_000
_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A frozen server answers no ping: this is what ends a watch on it. etcd refuses more than one in 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
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
"""What gRPC's words for a lost connection mean, the more telling first."""
_NEXT_ENDPOINT = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class WatchBrokenError(DiscoveryFailedError):
    """A watch ended with the endpoint that it was on; another may be well."""


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """PEM files; ``server_name`` blank: the host that is dialled."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A key and its value; ``value`` None: it was deleted."""

    key: str
    value: bytes | None
    created: int


@dataclass(frozen=True, slots=True)
class Events:
    """One answer of a watch. ``lost``: it cannot go on from where it was, load the range again."""

    revision: int
    items: tuple[Item, ...] = ()
    lost: bool = False


class _Session:
    """A channel to one endpoint, logged in."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.kv: Any = rpc.KVStub(channel)
        self.leases: Any = rpc.LeaseStub(channel)
        self.watches: Any = rpc.WatchStub(channel)
        self.metadata: tuple[tuple[str, str], ...] = ()


class EtcdClient:
    """Several endpoints of one etcd cluster, of which one is in use.

    For one process at a time: whoever leaves an endpoint ends what others have under way there.
    """

    def __init__(
        self,
        endpoints: Sequence[Address],
        *,
        timeout: float,
        username: str = "",
        password: str = "",
        tls: EtcdTls | None = None,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout = timeout
        self._username = username
        self._password = password
        self._tls = tls
        # How long one connect may take: longer than a call, so that a server which is frozen always shows in
        # the same way, and one that is far away can be reached at all.
        connect = ("grpc.min_reconnect_backoff_ms", round(timeout * 1000) + 1000)
        self._options = (*_OPTIONS, connect)
        self._current = 0
        self._session: _Session | None = None

    def another(self) -> EtcdClient:
        """The same, for another process."""
        return EtcdClient(
            self._endpoints,
            timeout=self._timeout,
            username=self._username,
            password=self._password,
            tls=self._tls,
        )

    # -- keys

    async def range(self, prefix: str) -> tuple[int, list[Item]]:
        """Everything below ``prefix``, and the revision at which it was so."""
        start, end = prefix.encode(), _range_end(prefix)
        revision, items = 0, list[Item]()
        while True:
            answer = await self._page(
                rpc.RangeRequest(key=start, range_end=end, limit=PAGE, revision=revision)
            )
            revision = revision or answer.header.revision
            items += [_item(kv) for kv in answer.kvs]
            if not answer.more or not answer.kvs or len(items) >= MAX_ITEMS:
                return revision, items
            start = answer.kvs[-1].key + b"\0"

    async def _page(self, request: Any) -> Any:
        return await self._ask(lambda s: s.kv.Range(request, **self._with(s)))

    async def reach(self, prefix: str) -> None:
        """See whether any endpoint answers for keys below ``prefix``."""
        key, end = prefix.encode(), _range_end(prefix)
        await self._page(rpc.RangeRequest(key=key, range_end=end, limit=1, keys_only=True))

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
        answer = await self._ask(lambda s: s.kv.Range(request, **self._with(s)))
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
        answer = await self._ask(lambda s: s.kv.Txn(request, **self._with(s)))
        if answer.succeeded:
            return int(answer.header.revision)
        return int(answer.responses[0].response_range.kvs[0].create_revision)

    async def put_if(self, key: str, value: bytes, lease: int, *, guard: str, created: int) -> bool:
        """Put ``key`` while ``guard`` is still the one created at revision ``created``."""
        put = rpc.PutRequest(key=key.encode(), value=value, lease=lease)
        request = rpc.TxnRequest(compare=[_created(guard, created)], success=[rpc.RequestOp(request_put=put)])
        answer = await self._ask(lambda s: s.kv.Txn(request, **self._with(s)))
        return bool(answer.succeeded)

    # -- leases

    async def grant(self, ttl: float) -> int:
        """A new lease."""
        request = rpc.LeaseGrantRequest(TTL=max(1, round(ttl)))
        return int((await self._ask(lambda s: s.leases.LeaseGrant(request, **self._with(s)))).ID)

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys; one that is gone is no error."""
        request = rpc.LeaseRevokeRequest(ID=lease)
        await self._ask(lambda s: s.leases.LeaseRevoke(request, **self._with(s)), missing_ok=True)

    async def keep_alive(self, lease: int) -> bool:
        """Renew a lease; False where it is gone."""

        async def once(session: _Session) -> int:
            requests = [rpc.LeaseKeepAliveRequest(ID=lease)]
            async for answer in session.leases.LeaseKeepAlive(requests, **self._with(session)):
                return int(answer.TTL)
            return 0

        return await self._ask(once) > 0

    # -- watches

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[Events, None]:
        """What happens below ``prefix`` from ``revision`` on, until it fails; first that the watch stands."""
        request = rpc.WatchCreateRequest(
            key=prefix.encode(), range_end=_range_end(prefix), start_revision=revision
        )
        call: Any = None
        try:
            session = await self._open()
            call = session.watches.Watch(metadata=session.metadata)
            async with asyncio.timeout(self._timeout):
                await call.write(rpc.WatchRequest(create_request=request))
                answer = await call.read()
            while answer is not grpc.aio.EOF:
                if answer.canceled and not answer.compact_revision:
                    await self._leave()
                    raise DiscoveryFailedError(self._where, f"ended the watch: {answer.cancel_reason}")
                at = int(answer.header.revision)
                # An etcd that was set up anew counts from 1 again, and would be silent for long.
                lost = bool(answer.compact_revision) or (answer.created and at < revision - 1)
                yield Events(at, tuple(_event(event) for event in answer.events), lost)
                if lost:
                    return
                answer = await call.read()
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            raise WatchBrokenError(self._where, await self._failed(error)) from None
        finally:
            if call is not None:
                call.cancel()
        await self._leave()
        raise WatchBrokenError(self._where, "ended the watch")

    # -- the connection

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.channel.close()

    @property
    def endpoint(self) -> str:
        """The one in use."""
        return _text(self._endpoints[self._current])

    def _with(self, session: _Session) -> dict[str, Any]:
        return {"timeout": self._timeout, "metadata": session.metadata}

    @property
    def _where(self) -> str:
        return f"etcd {', '.join(map(_text, self._endpoints))}"

    async def _ask(self, call: Callable[[_Session], Awaitable[T]], *, missing_ok: bool = False) -> T:
        """One call, at each endpoint until one answers."""
        problems: dict[str, str] = {}
        # Once more than there are endpoints: the token of the only one may have run out.
        for _ in range(len(self._endpoints) + bool(self._username)):
            endpoint = self.endpoint
            try:
                session = await self._open()
                async with asyncio.timeout(self._timeout + 1):
                    return await call(session)
            except grpc.aio.AioRpcError as error:
                if missing_ok and error.code() is grpc.StatusCode.NOT_FOUND:
                    return None  # type: ignore[return-value]
                problems[endpoint] = await self._failed(error)
                if error.code() not in _NEXT_ENDPOINT:
                    raise DiscoveryFailedError(self._where, problems[endpoint]) from None
            except TimeoutError as error:
                problems[endpoint] = await self._failed(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Not this task was cancelled: its channel was closed under it, which gRPC tells so.
                problems[endpoint] = "was left by another process of this node"
        if len(set(problems.values())) == 1:
            raise DiscoveryFailedError(self._where, next(iter(problems.values())))
        told = "; ".join(f"{endpoint} {problem}" for endpoint, problem in sorted(problems.items()))
        raise DiscoveryFailedError(self._where, told)

    async def _open(self) -> _Session:
        if self._session is not None:
            return self._session
        session = _Session(await self._channel())
        if self._username:
            request = rpc.AuthenticateRequest(name=self._username, password=self._password)
            stub: Any = rpc.AuthStub(session.channel)
            try:
                answer = await stub.Authenticate(request, timeout=self._timeout)
            except grpc.aio.AioRpcError:
                await session.channel.close()
                raise
            session.metadata = (("token", answer.token),)
        self._session = session
        return session

    async def _channel(self) -> Any:
        if self._tls is None:
            return grpc.aio.insecure_channel(self.endpoint, options=self._options)
        try:
            # Read anew for each channel: certificates are renewed.
            ca, key, cert = await asyncio.to_thread(_read_all, self._tls)
        except OSError as error:
            problem = f"cannot read {error.filename}: {error.strerror}"
            raise DiscoveryFailedError(self._where, problem) from None
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        options = self._options
        if self._tls.server_name:
            options = (*options, ("grpc.ssl_target_name_override", self._tls.server_name))
        return grpc.aio.secure_channel(self.endpoint, credentials, options=options)

    async def _failed(self, error: grpc.aio.AioRpcError | TimeoutError) -> str:
        """Leave this endpoint; what is wrong with it."""
        await self._leave()
        if isinstance(error, TimeoutError):
            return _SILENT.format(self._timeout)
        return _problem(error, self._timeout)

    async def _leave(self) -> None:
        self._current = (self._current + 1) % len(self._endpoints)
        await self.close()


def _problem(error: grpc.aio.AioRpcError, timeout: float) -> str:
    details = error.details() or ""
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            # Without the addresses and times that gRPC puts in, or each try would be news.
            for sign, problem in _TLS_PROBLEMS.items():
                if sign in details:
                    return problem
            return "cannot be reached; does etcd run there, does it want TLS?"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return _SILENT.format(timeout)
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return f"refused: {details}; check username and the roles of that user"
        case grpc.StatusCode.INVALID_ARGUMENT if "auth" in details or "user name" in details:
            return f"refused: {details}; check username and password"
        case code:
            return f"{code.name.lower().replace('_', ' ')}: {details}"


def _item(kv: Any) -> Item:
    return Item(kv.key.decode(errors="replace"), kv.value, int(kv.create_revision))


def _event(event: Any) -> Item:
    item = _item(event.kv)
    return Item(item.key, None, 0) if event.type == rpc.Event.DELETE else item


def _created(key: str, revision: int) -> Any:
    return rpc.Compare(
        key=key.encode(),
        target=rpc.Compare.CREATE,
        result=rpc.Compare.EQUAL,
        create_revision=revision,
    )


def _range_end(prefix: str) -> bytes:
    """The first key after all those that begin with ``prefix``, which ends with a slash."""
    return prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1])


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_all(tls: EtcdTls) -> list[bytes | None]:
    # Left to itself, gRPC takes authorities that it brings along.
    system = ssl.get_default_verify_paths().cafile
    authorities = tls.ca or (Path(system) if system else None)
    return [None if path is None else path.read_bytes() for path in (authorities, tls.key, tls.cert)]
