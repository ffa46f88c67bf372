"""Background work of replication: purge rows, and compare digests.

Rules: 1. A tick is cheap where nothing is due.  2. Work is done in slices of so many rows, so that no purge
and no digest blocks the loop.

Rejected: repeating requests to peers that have not answered, or not sent everything. The link loses nothing
within a session, and what is requested twice is sent twice: over a slow link a snapshot would never end.
"""

from __future__ import annotations

from gossamer.mnesia_like.replication.digest import Sweep
from gossamer.mnesia_like.replication.exchange import Exchange, OwnedState
from gossamer.mnesia_like.replication.replica import Replica
from gossamer.mnesia_like.replication.wire import Digest, DigestRequest
from gossamer.mnesia_like.values import encode


class Maintenance:
    """Periodic work of replication; ``digest_interval`` in seconds."""

    def __init__(self, exchange: Exchange, *, digest_interval: float, slice_rows: int) -> None:
        self._x = exchange
        self._digest_interval = digest_interval
        self._slice = slice_rows

    def tick(self, now: float) -> None:
        """Purge what expired, start digests; called about once a second."""
        for state in self._x.tables.values():
            for name, replica in state.replicas.items():
                if name not in self._x.peers:
                    replica.expire(now)
            if now - state.digest_at >= self._digest_interval:
                state.digest_at = now
                self._request_digests(state)

    def work(self) -> None:
        """Do one slice of background work; see :attr:`busy`."""
        for state in self._x.tables.values():
            table = state.definition.name
            if state.log.sweep is not None:
                self._step_own(state, state.log.sweep)
            for name, progress in state.followers.items():
                if progress.more:
                    self._x.pump_one(state, name, progress)
            for name, replica in state.replicas.items():
                if replica.moving:
                    change = replica.move(self._slice)
                    if change is not None:
                        self._x.actions.append(change)
                    peer = self._x.peers.get(name)
                    if peer is not None and not (replica.purging or replica.parked_rows):
                        self._x.ask(peer, replica)
                elif replica.sweep is not None and not replica.sweep.done:
                    replica.sweep.step(self._slice)
                    self.compare(table, name, replica)

    @property
    def busy(self) -> bool:
        """True while :meth:`work` has something to do."""
        self._x.may_be_busy = any(
            state.log.sweep is not None
            or any(progress.more for progress in state.followers.values())
            or any(r.moving or (r.sweep is not None and not r.sweep.done) for r in state.replicas.values())
            for state in self._x.tables.values()
        )
        return self._x.may_be_busy

    def compare(self, table: str, name: str, replica: Replica) -> None:
        """Request all rows again if both digests are there and differ."""
        if replica.diverged():
            self._x.counts["digest_mismatches"] += 1
            self._x.report("table_diverged", table=table, peer=name, position=replica.position)
            self._x.ask(self._x.peers[name], replica, snapshot=True)

    def _request_digests(self, state: OwnedState) -> None:
        log = state.log
        if log.seal():
            self._x.pump(state)
        if log.sweep is not None or not log.rows:
            return
        caught_up = [name for name, progress in state.followers.items() if progress.caught_up]
        if not caught_up:
            return
        request = encode(DigestRequest(state.definition.name, log.last))
        for name in caught_up:
            self._x.peers[name].outbox.append(request)
        log.sweep = Sweep(log.rows, log.last)

    def _step_own(self, state: OwnedState, sweep: Sweep) -> None:
        sweep.step(self._slice)
        if not sweep.done:
            return
        state.log.sweep = None
        digest = encode(Digest(state.definition.name, sweep.number, sweep.count, sweep.total))
        for name in state.followers:
            self._x.peers[name].outbox.append(digest)
