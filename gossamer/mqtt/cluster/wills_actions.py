"""Actions of ``wills``: rows on disc, requests to other nodes, and probes of the hosts of missing ones.

Rules: 1. This node's rows go to the disc as they are written, with the next commit, also before other nodes
can read the table; they are read once, when the node starts.  2. A CONNECT with a will is answered once every
node that is up has its row, and the disc; not later than :data:`KNOWN_TIMEOUT`.  3. One round of requests at
a time; wills that become due meanwhile go with the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import structlog

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.errors import GossamerError
from gossamer.mnesia_like import Journal, OwnedTable, SharedTable, Store
from gossamer.mqtt.messages.records import read_record
from gossamer.mqtt.publish.core import Core
from gossamer.mqtt.session.will_agreement import BATCH
from gossamer.mqtt.session.will_rows import Key
from gossamer.network import Address, Network

log = structlog.get_logger(__name__)

KNOWN_TIMEOUT = 2.0
ASK_TIMEOUT = 3.0
CONNECT_TIMEOUT = 2.0
ATTEMPTS = 10
_ASK = "mqtt.wills_ask"
_SPENT = "mqtt.wills_spent"
_VIEW = ("", "")
"""Key of the row ``[creation in which the disc began, {node that was up: [creation, host, port]}]``."""

_encode = msgspec.msgpack.Encoder().encode


class _Kept:
    """The table, with this node's rows on disc too: in a journal, since that takes writes at any time."""

    def __init__(self, table: OwnedTable, journal: Journal | None) -> None:
        self._table = table
        self._journal = journal
        self._written = 0
        self.rows_of = table.rows_of
        self.seen_of = table.seen_of

    def write(self, key: object, value: object, /) -> int:
        if self._journal is not None:
            self._journal.put(_encode(key), _encode(value))
        self._written = self._table.write(key, value)
        return self._written

    def delete(self, key: object, /) -> int:
        if self._journal is not None:
            self._journal.put(_encode(key), None)
        self._written = self._table.delete(key)
        return self._written

    def are_visible(self) -> bool:
        """Return whether every node that is up has all writes."""
        return self._table.is_visible(self._written)


class ClusterWills:
    """Carries out what :class:`Wills` decides. Belongs to the process ``mqtt_cluster``; restarts with it."""

    def __init__(
        self,
        core: Core,
        distribution: Distribution,
        network: Network,
        table: OwnedTable,
        retained: SharedTable,
    ) -> None:
        self._wills, self._sessions, self._publishing = core.wills, core.table, core.publishing
        self._now = core.fanout.now
        self._distribution = distribution
        self._network = network
        self._table = table
        self._retained = retained
        self._node = distribution.runtime.node
        self._addresses: dict[str, Address] = {}
        self._knocking: set[str] = set()
        self._asking = False
        self._unknown: dict[int, list[Callable[[], object]]] = {}

    async def begin(self, store: Store, functions: dict[str, Callable[..., object]], *, disc: bool) -> None:
        """Add the functions that other nodes call; the first time also restore the rows on disc."""
        functions[_ASK] = self._asked
        functions[_SPENT] = self._spent
        if self._wills.table is None:
            journal, rows = await store.create_journal("mqtt_wills") if disc else (None, {})
            born, seen = rows.pop(_VIEW, (self._wills.born, {}))
            self._wills.table = kept = _Kept(self._table, journal)
            for key, row in rows.items():
                self._table.write(key, row)
            self._addresses = {name: (host, port) for name, (_, host, port) in seen.items()}
            self._wills.begin(born, {name: one[0] for name, one in seen.items()}, self._now())
            kept.write(_VIEW, [born, seen])
        self._wills.wake = self._ask

    # -- nodes

    def node_up(self, name: str, creation: int) -> None:
        peer = self._distribution.peers.get(name)
        if peer is not None:
            self._addresses[name] = peer.address
        spent = self._wills.node_up(name, creation)
        if spent:
            self._distribution.runtime.spawn(self._send_spent, name, spent, label="mqtt_wills_spent")

    def remember(self) -> None:
        """Write the nodes that are up to disc: one that starts alone asks them first, or waits for them."""
        if self._wills.table is not None:
            seen = {
                name: [creation, *self._addresses[name]]
                for name, creation in self._wills.nodes.seen().items()
                if name in self._addresses
            }
            self._wills.table.write(_VIEW, [self._wills.born, seen])

    def changed(self, owner: str, written: Mapping[object, object], deleted: Iterable[object]) -> None:
        """Follow changed rows of another node."""
        if owner != self._node:
            self._wills.changed(owner, written, deleted)

    def tick(self) -> None:
        """Probe missing nodes and publish what is due. Call it about once a second."""
        for name in self._wills.nodes.doubted():
            if name in self._addresses and name not in self._knocking:
                self._knocking.add(name)
                self._distribution.runtime.spawn(self._knock, name, label="mqtt_wills_knock")
        self._ask()

    async def _knock(self, name: str) -> None:
        """Connect to the host of a missing node: one that refuses is up, and its node is dead."""
        refused = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, _ = await self._network.connect(asyncio.Protocol, self._addresses[name])
            transport.abort()
        except ConnectionRefusedError:
            refused = True
        except (OSError, TimeoutError):
            pass
        finally:
            self._knocking.discard(name)
            self._wills.nodes.refused(name, refused=refused)

    # -- asking and publishing

    def _ask(self) -> None:
        if not self._asking:
            self._asking = True
            self._distribution.runtime.spawn(self._publish_due, label="mqtt_wills")

    async def _publish_due(self) -> None:
        try:
            while await self._publish_some():
                pass
        finally:
            self._asking = False

    async def _publish_some(self) -> bool:
        """Request the wills that are due and publish those granted; return whether there may be more."""
        keys, ends = self._wills.due(self._now())
        if not keys:
            return False
        former = self._wills.former(keys)
        results = await remote.multicall(
            self._distribution.nodes(), _ASK, self._node, keys, ends, former, timeout=ASK_TIMEOUT
        )
        answers = [one.value if isinstance(one, remote.Returned) else None for one in results.values()]
        records = self._wills.settle(keys, answers, self._now())  # type: ignore[arg-type]
        for key, record, message_id in records:
            message, _ = read_record(record, 0, len(record), self._now())
            published = partial(self._is_published, key)
            try:
                # QoS 0 is not acknowledged.
                on_safe = published if message.qos else None
                self._publishing.route(message, client_id=key[1], message_id=message_id, on_safe=on_safe)
            except GossamerError as error:
                log.warning("will_not_published", client_id=key[1], error=str(error))
                published(True)
            else:
                if not message.qos:
                    published(True)
        return bool(records)

    def _is_published(self, key: Key, _safe: bool) -> None:
        self._wills.published(key, self._now())

    def _asked(
        self, claimant: str, keys: list[object], ends: dict[str, int], former: dict[str, list[str]]
    ) -> tuple[list[Key], list[Key]]:
        return self._wills.asked(claimant, keys, ends, former, self._now())

    async def _send_spent(self, name: str, keys: list[Key]) -> None:
        for start in range(0, len(keys), BATCH):
            some = keys[start : start + BATCH]
            for _ in range(ATTEMPTS):
                result = await remote.call(name, _SPENT, some, timeout=ASK_TIMEOUT)
                if isinstance(result, remote.Returned):
                    self._wills.forget_done(some)
                    break
                await asyncio.sleep(1.0)

    def _spent(self, keys: list[Any]) -> bool:
        for client_id in self._wills.spent(keys, self._now()):
            self._sessions.void_will(client_id)
        return True

    # -- visibility

    def when_known(self, number: int, callback: Callable[[], object]) -> bool:
        """Call ``callback`` once every node has the write ``number``, and the disc, or after
        :data:`KNOWN_TIMEOUT`; True: that is so already, and it is not called."""
        if not number or (self._retained.safe_at == 0 and self._table.is_visible(number)):
            return True
        waiting = self._unknown.get(number)
        if waiting is not None:
            waiting.append(callback)
        else:
            # All writes of one turn have one number.
            self._unknown[number] = [callback]
            self._distribution.runtime.spawn(self._await_known, number, label="mqtt_will_known")
        return False

    async def _await_known(self, number: int) -> None:
        try:
            async with asyncio.timeout(KNOWN_TIMEOUT):
                await asyncio.gather(self._table.visible(number, KNOWN_TIMEOUT), self._retained.durable(None))
        except (GossamerError, TimeoutError) as error:
            log.warning("will_not_safe_in_time", error=str(error) or "no answer")
        finally:
            for callback in self._unknown.pop(number, ()):
                callback()
