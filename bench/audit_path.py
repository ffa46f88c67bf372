"""What recording costs the publish path alone: the broker in this process, without sockets.

    python bench/audit_path.py                      every pattern on one node
    python bench/audit_path.py --rows fanin1 --rounds 60

Four ways: ``bare`` is the code with every hook of the recorder cut out (its source is read again with
``recorder`` put as None, and what is then unreachable left out), ``off`` the code as it is without recording,
``1%`` and ``all``. What a socket costs is missing from all of them, so that shares are higher than what
``bench/audit.py`` finds of a whole node; in return they can be told on a busy machine, since the ways take
turns of a tenth of a second and what is told are the means of their ratios in processor time.
"""

import argparse
import ast
import asyncio
import importlib.abc
import importlib.util
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PATTERNS = {
    "pair0": {"qos": 0, "pubs": 10, "subs": 10, "each": 50},
    "pair1": {"qos": 1, "pubs": 10, "subs": 10, "each": 20},
    "fanout0": {"qos": 0, "pubs": 1, "subs": 50, "each": 50},
    "fanin1": {"qos": 1, "pubs": 50, "subs": 1, "each": 4},
    "wildcard0": {"qos": 0, "pubs": 10, "subs": 4, "each": 50},
}
WAYS = {"bare": None, "off": None, "1%": 0.01, "all": 1.0}
DRAINED = 0.1
"""Seconds."""
OFF_COST = 0.01


class _Cut(ast.NodeTransformer):
    """Takes ``recorder`` for None, and leaves out what is unreachable then."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "recorder" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(None), node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ("recorder", "told", "kept") and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(None), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Compare(ast.Constant(None), [ast.Is() | ast.IsNot() as how], [ast.Constant(None)]):
                return ast.copy_location(ast.Constant(isinstance(how, ast.Is)), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        ends = isinstance(node.op, ast.Or)
        values: list[ast.expr] = []
        for value in node.values:
            if _known(value) and bool(value.value) is not ends:
                continue
            values.append(value)
            if _known(value):
                break
        if not values:
            return ast.copy_location(ast.Constant(not ends), node)
        return values[0] if len(values) == 1 else ast.copy_location(ast.BoolOp(node.op, values), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _known(node.test):
            return node.body if node.test.value else node.orelse
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if _known(node.test):
            left = node.body if node.test.value else node.orelse
            return left or ast.copy_location(ast.Pass(), node)
        return node


def _known(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


class _CutFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads ``gossamer.mqtt`` with the hooks cut out."""

    def find_spec(self, name, path, target=None):
        if not name.startswith("gossamer.mqtt"):
            return None
        finder = importlib.util.find_spec if path is None else None
        for entry in path or ():
            base = Path(entry) / name.rsplit(".", 1)[1]
            file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            if file.exists():
                search = [str(base)] if base.is_dir() else None
                return importlib.util.spec_from_file_location(
                    name, file, loader=self, submodule_search_locations=search
                )
        assert finder is None
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        tree = ast.fix_missing_locations(_Cut().visit(ast.parse(Path(path).read_text())))
        exec(compile(tree, path, "exec"), module.__dict__)


def load_cut():
    """``gossamer.mqtt`` once more, without hooks, beside the one that is loaded."""
    whole = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("gossamer.mqtt")}
    finder = _CutFinder()
    sys.meta_path.insert(0, finder)
    try:
        cut = importlib.import_module("gossamer.mqtt")
        cut.__dict__["Broker"]
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith("gossamer.mqtt")]:
            del sys.modules[name]
        sys.modules.update(whole)
    return cut


class Sink(asyncio.Transport):
    """A socket that takes everything at once."""

    def __init__(self):
        super().__init__({"peername": ("192.0.2.1", 5000)})
        self.written = b""

    def write(self, data):
        self.written = data

    def is_closing(self):
        return False

    def close(self):
        pass

    abort = pause_reading = resume_reading = close

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0


class Listening:
    """A network of one listener."""

    async def listen(self, factory, address, **options):
        self.factory = factory
        return self

    address = ("192.0.2.2", 1883)

    def close(self):
        pass


class Node:
    """A broker, its clients, and what they send in a turn."""

    async def start(self, mqtt, pattern, payload):
        from gossamer.clock import SystemClock
        from gossamer.config import MqttAuthConfig, MqttConfig
        from gossamer.routes import Router
        from gossamer.supervisor import Runtime, Supervisor

        self.network = Listening()
        self.runtime = Runtime()
        config = MqttConfig(auth=MqttAuthConfig(allow_anonymous=True))
        clock = SystemClock()
        router = Router("node1@bench")
        self.broker = mqtt.Broker(
            router, clock=clock, network=self.network, config=config, runtime=self.runtime
        )
        await self.runtime.start(Supervisor, [mqtt.mqtt_spec(self.broker)])
        self.qos, each = pattern["qos"], pattern["each"]
        subs = [await self._client(f"s{n}") for n in range(pattern["subs"])]
        self.pubs = [await self._client(f"p{n}") for n in range(pattern["pubs"])]
        for number, sub in enumerate(subs):
            wanted = "#" if len(subs) in (1, 4, 50) else f"bench/{number:02}"
            body = b"\0\1" + len(wanted).to_bytes(2) + wanted.encode() + bytes([self.qos])
            sub.data_received(bytes([0x82, len(body)]) + body)
        await self._turns()
        self.subs = subs
        head = b"\x32" if self.qos else b"\x30"
        self.reads = []
        for number in range(len(self.pubs)):
            topic = f"bench/{number:02}".encode()
            packets = []
            for n in range(each):
                body = len(topic).to_bytes(2) + topic + (n + 1).to_bytes(2) * self.qos + b"x" * payload
                packets.append(head + bytes([len(body)]) + body)
            self.reads.append(b"".join(packets))
        self.packet = len(packets[0])
        self.messages = len(self.pubs) * each
        self.identifier = len(packets[0]) - payload - 2

    async def _client(self, name):
        transport = Sink()
        channel = self.network.factory()
        transport.channel = channel
        channel.connection_made(transport)
        body = b"\0\4MQTT\4\2\0\0" + len(name).to_bytes(2) + name.encode()
        channel.data_received(bytes([0x10, len(body)]) + body)
        await self._turns()
        return channel

    async def _turns(self):
        for _ in range(6):
            await asyncio.sleep(0)

    async def turn(self):
        """Processor time of one turn of all."""
        began = time.thread_time()
        for pub, read in zip(self.pubs, self.reads, strict=True):
            pub.data_received(read)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        spent = time.thread_time() - began
        while self.qos:
            acks = [self._acks(sub.transport) for sub in self.subs]
            if not any(acks):
                break
            began = time.thread_time()
            for sub, ack in zip(self.subs, acks, strict=True):
                if ack:
                    sub.data_received(ack)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            spent += time.thread_time() - began
        return spent

    def _acks(self, transport):
        data, transport.written = transport.written, b""
        size, at = self.packet, self.identifier
        return b"".join([b"\x40\2" + data[n + at : n + at + 2] for n in range(0, len(data), size)])


def recorder_for(node):
    """What a node has that records, but for the process that takes it."""
    from gossamer.audit import EventBuffer, FlowRecorder

    buffer = EventBuffer(limit=1_000_000, wall=time.time)
    recorder = FlowRecorder(
        buffer,
        node="node1@bench",
        creation=1,
        fanout=node.broker.fanout,
        key=b"k" * 16,
        pseudonyms=False,
        filters_of=lambda topic: ["#"],
        soon=asyncio.get_running_loop().call_soon,
    )
    return buffer, recorder


async def compare(row, mqtts, options):
    from gossamer.audit.journal import Batch, frame
    from gossamer.audit.recorder import _WEIGHT

    nodes = {}
    for name, mqtt in mqtts.items():
        nodes[name] = node = Node()
        await node.start(mqtt, PATTERNS[row], options.payload)
    buffer, recorder = recorder_for(nodes["whole"])
    found = {way: [] for way in WAYS}
    # As long as it takes a node to come by and take what was recorded.
    turns = 1 + int(DRAINED / await nodes["whole"].turn())
    for number in range(options.rounds + 2):
        for way in random.sample(list(WAYS), len(WAYS)):
            node = nodes["bare" if way == "bare" else "whole"]
            share = WAYS[way]
            if share is not None:
                if recorder.sample != share:
                    recorder.sample = share
                node.broker.fanout.recorder = recorder
            spent = 0.0
            for _ in range(turns):
                spent += await node.turn()
            began = time.thread_time()
            while len(buffer):
                frame(Batch(0, buffer.take(_WEIGHT)))
            spent += time.thread_time() - began
            node.broker.fanout.recorder = None
            if number >= 2:
                found[way].append(spent / turns / node.messages * 1e9)
    for node in nodes.values():
        await node.runtime.stop()

    def cost(way, of):
        # Means, since what is kept comes in lumps; the quickest and slowest tenth are somebody else's doing.
        ratios = sorted(a / b for a, b in zip(found[way], found[of], strict=True))
        trim = len(ratios) // 10
        return statistics.fmean(ratios[trim : len(ratios) - trim]) - 1

    off, part, whole = cost("off", "bare"), cost("1%", "off"), cost("all", "off")
    ns = statistics.median(found["off"])
    reached = "reached" if off <= OFF_COST else "NOT reached"
    print(f"{row:<10} {ns:>8,.0f} {off:>+8.1%} {part:>+8.1%} {whole:>+8.1%}  {reached}", flush=True)


def main():
    def names(text):
        return [part.strip() for part in text.split(",") if part.strip()]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=names, default=list(PATTERNS), help=f"of {', '.join(PATTERNS)}")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--payload", type=int, default=100)
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in PATTERNS]:
        parser.error(f"--rows: unknown {', '.join(unknown)}; expected of {', '.join(PATTERNS)}")
    import structlog

    import gossamer.mqtt as whole
    from gossamer.supervisor import tune_collector

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    whole.Broker  # noqa: B018 - loaded
    mqtts = {"whole": whole, "bare": load_cut()}
    tune_collector()
    print(
        f"without sockets, payload {options.payload} B, mean ratios of {options.rounds} runs;"
        f" load average {os.getloadavg()[0]:.1f}"
    )
    print(f"off must cost <= {OFF_COST:.0%} of the code without hooks; 1% and all against off")
    print(f"{'row':<10} {'ns/msg':>8} {'off':>8} {'1%':>8} {'all':>8}")
    for row in options.rows:
        asyncio.run(compare(row, mqtts, options))


if __name__ == "__main__":
    main()
