"""Host process of a Thespian system: ``python -m gossamer.supervisor.thespian.host FD PORT PATH…``.

A fresh interpreter, so that Thespian can fork safely: without event loop, gRPC and threads. A few functions
of Thespian would break the guarantees of supervision and are replaced, in this process and so in all that it
forks:

- The admin stays a child in this process group (Thespian daemonizes it), and every process dies with the one
  that forked it (PR_SET_PDEATHSIG): however the node ends, nothing is left.
- Sockets bind 127.0.0.1 (Thespian: every address, with unauthenticated pickle on it). Listening sockets are
  checked once the system is up; if any is not on loopback, the host refuses to serve.
- A port that is taken is refused, and so is an admin that another process started (Thespian attaches to it,
  and so to the code it was started from).
- A handler that raises is not run again: the actor reports and ends (Thespian reruns it, then continues).
- The process that reaps an actor reports its exit status.

Each actor has a thread with an endpoint of its own, and a new endpoint after an ask without an answer, so
that an answer always belongs to its question.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

from thespian.actors import Actor, ActorExitRequest, ActorSystem
from thespian.system import actorManager, multiprocCommon
from thespian.system.transport import IPBase

from gossamer.supervisor.thespian import wire
from gossamer.supervisor.thespian.messages import BRIDGE, BRIDGE_NAME, Publish, Subscribe, Unsubscribe

CRASH_STATUS = 70
"""Exit status of an actor whose handler raised; the report has the details."""
ADMIN_GONE = 71
"""Exit status of the host when the admin ended by itself."""
REFUSED = 72
"""Exit status of the host when it refuses to serve."""
QUEUE = 1000
"""Maximum number of requests that wait for one actor."""
TRACEBACK = 16 * 1024
"""Maximum characters of a reported traceback."""

_socket: socket.socket | None = None


def report(frame: wire.FrameToNode) -> None:
    """Send a frame to the node, from any process of the system."""
    if _socket is not None:
        try:
            _socket.send(wire.encode(frame))
        except (BrokenPipeError, ConnectionResetError):
            # The node has ended, and the death signal of this process is under way.
            os._exit(CRASH_STATUS)


def _refuse(why: str) -> None:
    report(wire.Refused(why))
    sys.stderr.write(f"refused: {why}\n")
    sys.stderr.flush()
    os._exit(REFUSED)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(CRASH_STATUS)


def _tie_forks() -> None:
    """Make every process forked from here, and from its children, die with its parent."""
    parents: list[int] = []
    os.register_at_fork(
        before=lambda: parents.__setitem__(slice(None), [os.getpid()]),
        after_in_child=lambda: _die_with(parents[0]),
    )


def _bind_loopback() -> None:
    """Bind sockets to 127.0.0.1, not to every address."""
    IPBase.IPActorAddress.bindArgs = property(lambda self: (("127.0.0.1", self.bindname[1]),))


def _keep_admin() -> None:
    """Start the admin as a child in this process group, not as a daemon; record that it was started here."""
    start_admin = multiprocCommon.startAdmin

    def start_admin_here(*args: Any) -> None:
        fork, setsid = os.fork, os.setsid

        def stay() -> int:
            os.fork, os.setsid = fork, setsid
            return 0

        os.fork, os.setsid = stay, lambda: None
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        start_admin(*args)

    multiprocCommon.startAdmin = start_admin_here

    system_base = multiprocCommon.multiprocessCommon
    begin = system_base._startAdmin

    def begin_and_note(self: Any, *args: Any) -> None:
        _started.append(True)
        begin(self, *args)

    system_base._startAdmin = begin_and_note


def _report_exits() -> None:
    """Report the exit status of each actor once, from the process that reaps it."""
    alive = multiprocCommon.MultiProcReplicator._checkChildLiveness

    def alive_or_reported(info: Any) -> bool:
        living: bool = alive(info)
        if not living and not getattr(info, "reported", False):
            info.reported = True
            address = getattr(info, "childRealAddr", info.childAddr)
            if info.childClass != "logger":
                report(wire.Ended(str(address), _name_of(info.childClass), info.childProc.exitcode or 0))
        return living

    multiprocCommon.MultiProcReplicator._checkChildLiveness = staticmethod(alive_or_reported)


def _guard_actors() -> None:
    """Report an actor that raises, and end it instead of running its handler again."""
    manager = actorManager.ActorManager
    create_instance = manager._createInstance

    def create_guarded(self: Any) -> None:
        address = str(self.transport.myAddress)
        make = actorManager.withPossibleInitArgs

        class Reporting(make):  # type: ignore[misc, valid-type]
            def create(self, actor: Any) -> Any:
                try:
                    return super().create(actor)
                except Exception as error:
                    # Thespian ends the process after this, once it has reported it to the admin.
                    _report_crash(address, error)
                    raise

        actorManager.withPossibleInitArgs = Reporting
        create_instance(self)
        if self.actorInst is None:
            return
        receive = self.actorInst.receiveMessage

        def once(message: Any, sender: Any) -> Any:
            try:
                return receive(message, sender)
            except Exception as error:  # noqa: BLE001 - it is reported and ends the process
                _report_crash(address, error)
                os._exit(CRASH_STATUS)

        self.actorInst.receiveMessage = once
        report(wire.Started(address, os.getpid()))

    manager._createInstance = create_guarded


_started: list[bool] = []


def _name_of(actor: object) -> str:
    return str(getattr(actor, "__name__", actor)).rpartition(".")[-1]


def _report_crash(address: str, error: Exception) -> None:
    text = "".join(traceback.format_exception(error))[-TRACEBACK:]
    report(wire.Crashed(address, type(error).__qualname__, str(error)[:TRACEBACK], text))


def _exposed() -> list[str]:
    """Return the addresses on which this process group listens that are not loopback."""
    listening: dict[str, str] = {}
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == "0A" and fields[1].split(":")[0] != loopback:
                listening[f"socket:[{fields[9]}]"] = fields[1]
    found = []
    for directory in Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and os.getpgid(int(directory.name)) == os.getpgid(0):
                held = [str(descriptor.readlink()) for descriptor in (directory / "fd").iterdir()]
                found += [listening[inode] for inode in held if inode in listening]
        except OSError:
            # It ended during the check.
            continue
    return found


class Bridge(Actor):  # type: ignore[misc]
    """Actor that represents the broker inside the system.

    It writes actors' requests to the socket that every process of the system inherited, and passes the host's
    deliveries to the actor that subscribed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._subscribers: dict[str, Any] = {}

    def receiveMessage(self, msg: Any, sender: Any) -> None:  # noqa: N802 - Thespian's name
        if isinstance(msg, Publish | Subscribe | Unsubscribe):
            if isinstance(msg, Subscribe):
                self._subscribers[str(sender)] = sender
            report(wire.Requested(str(sender), msg))
        elif isinstance(msg, wire.Deliver):
            if (subscriber := self._subscribers.get(msg.address)) is not None:
                self.send(subscriber, msg.message)
        elif isinstance(msg, wire.Forget):
            self._subscribers.pop(msg.address, None)
        elif not isinstance(msg, ActorExitRequest):
            raise TypeError(f"the bridge takes Publish, Subscribe and Unsubscribe, got {type(msg).__name__}")


class _ActorThread:
    """Thread that serves one actor's requests in order, on an endpoint of its own."""

    def __init__(self, system: Any, actor: int, target: str) -> None:
        self._system = system
        self._actor = actor
        self._target = target
        self._requests: queue.Queue[wire.Tell | wire.Ask | wire.StopActor] = queue.Queue(QUEUE)
        self._thread = threading.Thread(target=self._serve, name=f"actor {actor}", daemon=True)
        self._thread.start()

    def put(self, request: wire.Tell | wire.Ask | wire.StopActor) -> None:
        try:
            self._requests.put_nowait(request)
        except queue.Full:
            if isinstance(request, wire.Ask):
                report(wire.Answer(request.call, None, f"{QUEUE} requests wait for this actor already"))

    def _serve(self) -> None:
        address: Any = None
        while True:
            with self._system.private() as endpoint:
                if address is None:
                    try:
                        address = endpoint.createActor(self._target)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the starter hears of it
                        report(wire.NotCreated(self._actor, f"{type(error).__qualname__}: {error}"))
                        return
                    report(wire.Created(self._actor, str(address)))
                while True:
                    request = self._requests.get()
                    if isinstance(request, wire.Ask):
                        if not _answer(endpoint, address, request):
                            break
                    elif isinstance(request, wire.Tell):
                        endpoint.tell(address, request.value)
                    else:
                        endpoint.tell(address, ActorExitRequest())
                        return


def _answer(endpoint: Any, address: Any, request: wire.Ask) -> bool:
    """Ask and report the answer; return False if a late answer may still come to this endpoint."""
    value = endpoint.ask(address, request.value, timedelta(seconds=request.timeout))
    if value is None:
        report(wire.Answer(request.call, None, f"no answer within {request.timeout:g} s"))
        return False
    try:
        report(wire.Answer(request.call, value, None))
    except wire.BadValueError as error:
        report(wire.Answer(request.call, None, str(error)))
    return True


def _end_with_admin() -> None:
    """End when the admin, the only child of this process, ends."""
    host = os.getpid()

    def died(number: int, frame: object) -> None:
        if os.getpid() != host:
            return
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            os._exit(ADMIN_GONE)

    signal.signal(signal.SIGCHLD, died)


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            _refuse(f"admin port {wanted}: {error.strerror}; an actor system of before may run there")
        port: int = probe.getsockname()[1]
        return port


def _serve(connection: socket.socket, system: Any) -> None:
    actors: dict[int, _ActorThread] = {}
    bridge: Any = None
    while packet := connection.recv(2 * wire.MAX_FRAME):
        frame = wire.to_host(packet)
        if isinstance(frame, wire.Create):
            actors[frame.actor] = _ActorThread(system, frame.actor, frame.target)
        elif isinstance(frame, wire.Tell | wire.Ask | wire.StopActor):
            if (thread := actors.get(frame.actor)) is not None:
                thread.put(frame)
            if isinstance(frame, wire.StopActor):
                actors.pop(frame.actor, None)
        elif isinstance(frame, wire.Deliver | wire.Forget):
            if bridge is None:
                bridge = system.createActor(BRIDGE, globalName=BRIDGE_NAME)
            system.tell(bridge, frame)
        elif isinstance(frame, wire.Halt):
            return


def main(arguments: list[str]) -> None:
    """Serve until the node sends Halt or ends."""
    global _socket
    descriptor, wanted, *paths = arguments
    sys.path[:0] = [path for path in paths if path not in sys.path]
    os.environ["THESPIAN_BASE_IPADDR"] = "127.0.0.1"
    _socket = connection = socket.socket(fileno=int(descriptor))
    for change in (_tie_forks, _bind_loopback, _keep_admin, _report_exits, _guard_actors):
        change()
    port = _free_port(int(wanted))
    _end_with_admin()
    system = ActorSystem(
        "multiprocTCPBase",
        {"Admin Port": port, "Process Startup Method": "fork"},
        logDefs={
            "version": 1,
            "formatters": {"plain": {"format": "%(levelname)s %(name)s %(message)s"}},
            "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "plain"}},
            "root": {"level": "WARNING", "handlers": ["out"]},
        },
        transientUnique=False,
    )
    if not _started:
        _refuse(f"an admin that was there before answers at port {port}")
    if exposed := _exposed():
        _refuse(f"sockets are open to the network: {exposed}")
    report(wire.Up(port))
    _serve(connection, system)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    system.shutdown()
    os._exit(0)


if __name__ == "__main__":
    # Import the module as actors do, so that there is only one.
    from gossamer.supervisor.thespian.host import main as serve

    serve(sys.argv[1:])
