"""The unique names that processes of this node hold: asked for, renewed, given back, and lost.

Rules: 1. A process is watched before its name is asked for, so one that ends has its name given back whatever
the answer was.  2. What is to be given back is asked until it is done.  3. A holder whose lease cannot be
renewed in time is killed: another may be given its name, and there are never two.
"""

from __future__ import annotations

import structlog
from msgspec import Struct

from gossamer.errors import UsageError
from gossamer.raft.errors import NotReadyError
from gossamer.raft.host import client
from gossamer.raft.host.replicated import NAMES
from gossamer.raft.names.machine import HOLD, ListNames, Register, Renew, Unregister, Whereis, encoded
from gossamer.supervisor import (
    Caller,
    CallTimeout,
    Down,
    GenServer,
    NoReply,
    Pid,
    Ref,
    Reply,
    Runtime,
    call,
    monitor,
    reply,
    self_pid,
    send,
    send_after,
    spawn,
)

log = structlog.get_logger(__name__)

UNIQUE_NAMES = "unique_names"
"""Registered name of the server on every node."""
RENEW_EVERY = 2.0
LOOK_EVERY = 0.5
MAX_NAME = 255
_LOOK = "look"


class _Register(Struct, frozen=True):
    name: str
    pid: Pid


class _Unregister(Struct, frozen=True):
    name: str


class _Answered(Struct, frozen=True):
    """Answer to a registration that was sent at ``sent``; fence None: it is not known."""

    name: str
    pid: Pid
    fence: int | None
    sent: float
    caller: Caller
    why: str = ""


class _Renewed(Struct, frozen=True):
    sent: float
    names: list[str] | None


class _GivenBack(Struct, frozen=True):
    name: str
    pid: Pid
    done: bool
    caller: Caller | None = None


class UniqueNames(GenServer):
    """Keeper of this node's names; start it under the name :data:`UNIQUE_NAMES`."""

    async def init(self) -> None:
        self._runtime: Runtime = self.process.runtime
        self._held: dict[str, tuple[Pid, float]] = {}
        """Process of each name that is held, and until when that is sure."""
        self._watched: dict[Ref, Pid] = {}
        self._asked: dict[str, Pid] = {}
        """Names that are being asked for."""
        self._returns: set[tuple[str, Pid]] = set()
        """Names that are being given back."""
        self._renewing = False
        self._next = 0.0
        send_after(LOOK_EVERY, self_pid(), _LOOK)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        match request:
            case _Register(name, pid):
                return self._register(name, pid, caller)
            case _Unregister(name):
                held = self._held.pop(name, None)
                if held is None:
                    return Reply(False)
                self._give_back(name, held[0], caller)
                return NoReply()
        return Reply(UsageError(f"unique_names got {type(request).__name__}; use register_name()"))

    async def handle_info(self, message: object) -> None:
        match message:
            case "look":
                send_after(LOOK_EVERY, self_pid(), _LOOK)
                self._look()
            case Down(ref, _, _):
                pid = self._watched.pop(ref, None)
                for name in [name for name, (holder, _) in self._held.items() if holder == pid]:
                    del self._held[name]
                    self._give_back(name, pid)
            case _Answered():
                self._answered(message)
            case _Renewed(sent, names):
                self._renewing = False
                self._renewed(sent, names)
            case _GivenBack(name, pid, done, caller):
                if done:
                    self._returns.discard((name, pid))
                    if caller is not None:
                        reply(caller, True)
                else:
                    spawn(_give_back, self_pid(), name, pid, caller, label=f"give back {name}")

    # -- getting

    def _register(self, name: str, pid: Pid, caller: Caller) -> Reply | NoReply:
        if pid.node != self._runtime.node or not self._runtime.alive(pid):
            node = self._runtime.node
            return Reply(UsageError(f"register_name() got {pid}; expected a live process of node {node}"))
        if not 0 < len(name.encode()) <= MAX_NAME:
            return Reply(UsageError(f"register_name() got {name[:40]!r}; expected 1 to {MAX_NAME} bytes"))
        held = self._held.get(name)
        if (held is not None and held[0] != pid) or name in self._asked:
            return Reply(0)
        self._asked[name] = pid
        self._watched[monitor(pid)] = pid
        spawn(_ask_for, self_pid(), name, pid, caller, label=f"ask for {name}")
        return NoReply()

    def _answered(self, got: _Answered) -> None:
        del self._asked[got.name]
        now = self.process.loop.time()
        late = now >= got.sent + HOLD or not self._runtime.alive(got.pid)
        if got.fence == 0:
            reply(got.caller, 0)
        elif got.fence is None or late:
            # It may have been given, and nobody would use it.
            self._give_back(got.name, got.pid)
            reply(got.caller, NotReadyError("register_name", got.why or "the answer came too late"))
        else:
            self._held[got.name] = got.pid, got.sent + HOLD
            reply(got.caller, got.fence)

    def _give_back(self, name: str, pid: Pid | None, caller: Caller | None = None) -> None:
        if pid is not None:
            self._returns.add((name, pid))
            spawn(_give_back, self_pid(), name, pid, caller, label=f"give back {name}")

    # -- keeping

    def _look(self) -> None:
        now = self.process.loop.time()
        for name, (_, until) in list(self._held.items()):
            if now >= until:
                self._lose(name, "no quorum could be asked in time")
        if self._held and not self._renewing and now >= self._next:
            self._renewing, self._next = True, now + RENEW_EVERY
            spawn(_renew, self_pid(), self._runtime.node, self._runtime.creation, now, label="renew names")

    def _renewed(self, sent: float, names: list[str] | None) -> None:
        if names is None:
            return
        for name, (pid, until) in list(self._held.items()):
            if name in names:
                self._held[name] = pid, max(until, sent + HOLD)
            elif until <= sent + HOLD:
                # One that was given after the question was sent is not in the answer.
                self._lose(name, "its node was not heard of")

    def _lose(self, name: str, why: str) -> None:
        pid, _ = self._held.pop(name)
        log.error("name_lost", name=name, pid=str(pid), why=why)
        self._runtime.exit(pid, "kill")
        self._give_back(name, pid)


async def _ask_for(server: Pid, name: str, pid: Pid, caller: Caller) -> None:
    sent = _now()
    fence, why = None, ""
    try:
        fence = int(await client.request(NAMES, encoded(Register(name, pid))))
    except NotReadyError as error:
        why = error.why
    send(server, _Answered(name, pid, fence, sent, caller, why))


async def _renew(server: Pid, node: str, creation: int, sent: float) -> None:
    names = None
    try:
        names = await client.read(NAMES, encoded(Renew(node, creation)), timeout=HOLD)
    except NotReadyError as error:
        log.warning("names_not_renewed", why=error.why)
    send(server, _Renewed(sent, names))


async def _give_back(server: Pid, name: str, pid: Pid, caller: Caller | None) -> None:
    done = True
    try:
        await client.request(NAMES, encoded(Unregister(name, pid)), timeout=60.0)
    except NotReadyError:
        done = False
    send(server, _GivenBack(name, pid, done, caller))


def _now() -> float:
    return Runtime.current().loop.time()


class ConsistentNames:
    """What ``register_name(…, cp=True)`` and its kind do; see ``distribution.remote.names``."""

    async def register(self, name: str, pid: Pid) -> int:
        """Register a name; return its fence, 0 if another process has it.

        Raises:
            NotReadyError: no quorum could be reached in time.
            UsageError: it is not a live process of this node.
        """
        answer = await call(UNIQUE_NAMES, _Register(name, pid), 2 * client.PATIENCE)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    async def unregister(self, name: str) -> bool:
        """Give a name of this node's back; False if no process here has it.

        Raises:
            NotReadyError: no quorum could be reached in time; it is given back once one can.
        """
        try:
            return bool(await call(UNIQUE_NAMES, _Unregister(name), 2 * client.PATIENCE))
        except CallTimeout:
            raise NotReadyError("unregister_name", "no quorum has answered; it is given back later") from None

    async def whereis(self, name: str) -> tuple[Pid, int] | None:
        """Return who holds a name, and its fence. Raises NotReadyError."""
        found = await client.read(NAMES, encoded(Whereis(name)))
        return None if found is None else (found[0], found[1])

    async def names(self) -> dict[str, tuple[Pid, int]]:
        """Return all names. Raises NotReadyError."""
        return dict(await client.read(NAMES, encoded(ListNames())))
