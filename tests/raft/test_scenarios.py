"""Replicas of one group by script: who leads, what their logs are, what they send. One file a theme.

A block is one scenario, opened by a sentence on what it shows. Replicas are numbers. After ``=>`` stands what
a line says: the messages that it delivered, the error that it raised, or what was asked.

::

    group 1 2 3 [learners=4] [OPTION=…]   replicas with blank logs; options are those of Settings, and chunk
    campaign 1     tick N [1 2 …]     only-tick 1: nothing is delivered
    settle     deliver: one round, and which messages
    propose 1 a b     read 2 7: with context 7     transfer 1 2     change 1 voters=1,2,4 [learners=5]
    step 2 KIND FROM TERM [field …]   a message of its own making     drop [KIND]: what is on its way
    cut 1 2 | 3     one-way 1 2     heal     crash 3     start 3     add 4     compact 1 [keep=2]
    forget 3 2      its disc loses its last entries, while it is down
    roles     log 1     applied     members 1     progress 1     reads 2     snapshot 1
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import gossamer.raft.messages as messages
from gossamer.errors import GossamerError
from gossamer.raft import Entry, Membership, Message, Snapshot
from tests.raft.group import Group
from tests.scripts import commands, compare, scripted

KINDS: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in Message.__subclasses__()}


@scripted(Path(__file__).parent / "scenarios")
def test_scenario(file: Path, block: str) -> None:
    scene = Scene()
    compare(file, block, [scene.run(*words) for words in commands(block)])


def options_of(words: tuple[str, ...]) -> dict[str, str]:
    return dict(word.split("=") for word in words if "=" in word)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


class Scene:
    """A group, and the lines done to it."""

    group: Group

    def run(self, verb: str = "", *words: str) -> str:
        """Carry out one line."""
        if not verb:
            return ""
        try:
            said = getattr(self, f"do_{verb.replace('-', '_')}")(*words)
        except GossamerError as error:
            return f"{type(error).__name__}: {error}"
        return "" if said is None else str(said)

    def do_group(self, *words: str) -> None:
        options = options_of(words)
        voters = tuple(int(word) for word in words if "=" not in word)
        membership = Membership(voters, (), numbers(options.pop("learners", "")))
        self.group = Group(membership, **{key: int(value) for key, value in options.items()})

    # -- what happens

    def do_campaign(self, number: str) -> None:
        self.group.replicas[int(number)].campaign()

    def do_tick(self, count: str, *which: str) -> None:
        self.group.tick(int(count), *map(int, which))

    def do_only_tick(self, number: str) -> None:
        self.group.ticks += 1
        self.group.replicas[int(number)].tick(self.group.ticks)

    def do_settle(self) -> None:
        self.group.settle()

    def do_deliver(self) -> str:
        return ", ".join(map(told, self.group.deliver()))

    def do_propose(self, number: str, *proposals: str) -> None:
        self.group.replicas[int(number)].propose([proposal.encode() for proposal in proposals])

    def do_read(self, number: str, context: str) -> None:
        self.group.replicas[int(number)].read(int(context))

    def do_transfer(self, number: str, to: str) -> None:
        self.group.replicas[int(number)].transfer(int(to))

    def do_change(self, number: str, *words: str) -> None:
        options = options_of(words)
        learners = numbers(options.get("learners", ""))
        self.group.replicas[int(number)].change_membership(numbers(options["voters"]), learners)

    def do_step(self, number: str, kind: str, sender: str, term: str, *fields: str) -> None:
        values: list[Any] = [_value(field) for field in fields]
        message = KINDS[kind](int(number), int(sender), int(term), *values)
        self.group.replicas[int(number)].step(message)

    def do_drop(self, kind: str = "") -> None:
        self.group.turns()
        self.group.queue = [m for m in self.group.queue if kind and not isinstance(m, KINDS[kind])]

    def do_cut(self, *words: str) -> None:
        self.group.cut(*([int(w) for w in side.split()] for side in " ".join(words).split("|")))

    def do_one_way(self, source: str, target: str) -> None:
        self.group.cuts.add((int(source), int(target)))

    def do_heal(self) -> None:
        self.group.cuts.clear()

    def do_crash(self, number: str) -> None:
        self.group.crash(int(number))

    def do_start(self, number: str) -> None:
        self.group.start(int(number))

    def do_add(self, number: str) -> None:
        self.group.add(int(number))

    def do_forget(self, number: str, count: str) -> None:
        disc = self.group.discs[int(number)]
        del disc.entries[-int(count) :]
        disc.hard = msgspec.structs.replace(disc.hard, commit=0)

    def do_compact(self, number: str, *words: str) -> None:
        self.group.compact(int(number), **{key: int(value) for key, value in options_of(words).items()})

    # -- what is asked

    def do_roles(self) -> str:
        replicas = sorted(self.group.replicas.items())
        return ", ".join(f"{number} {replica.role.value} {replica.term}" for number, replica in replicas)

    def do_log(self, number: str) -> str:
        log = self.group.replicas[int(number)].log
        marks = f"committed {log.committed}" + f", base {log.base}" * bool(log.base)
        return f"{_entries(log.slice(log.base + 1, log.last, 1 << 30))} {marks}"

    def do_applied(self) -> str:
        return ", ".join(f"{number} {text or '-'}" for number, text in sorted(self.group.texts.items()))

    def do_members(self, number: str) -> str:
        return _members(self.group.replicas[int(number)].membership)

    def do_progress(self, number: str) -> str:
        progress = self.group.replicas[int(number)].progress()
        return ", ".join(f"{member} {match} {flow.value}" for member, (match, flow) in progress.items())

    def do_reads(self, number: str) -> str:
        reads, self.group.reads[int(number)] = self.group.reads[int(number)], []
        return ", ".join(f"{context} at {index}" for context, index in reads)

    def do_snapshot(self, number: str) -> str:
        snapshot = self.group.replicas[int(number)].log.snapshot
        return f"{snapshot.index} of term {snapshot.term}, {_members(snapshot.membership)}"


def _value(field: str) -> Any:
    """``3``, ``yes``, ``2/1:a+3/1:b`` for entries, ``-`` for none, ``@9/2`` for a snapshot, ``'ab`` bytes."""
    if field.isdigit():
        return int(field)
    if field.startswith("'"):
        return field[1:].encode()
    if field.startswith("@"):
        index, term = field[1:].split("/")
        return Snapshot(int(index), int(term), Membership((1, 2, 3)))
    if field == "-":
        return []
    if "/" in field:
        return [_entry(entry) for entry in field.split("+")]
    return field == "yes"


def _entry(text: str) -> Entry:
    place, _, data = text.partition(":")
    index, term = place.split("/")
    return Entry(int(index), int(term), data.encode())


def _entries(entries: list[Entry]) -> str:
    words = []
    for entry in entries:
        data = b"members" if entry.kind else entry.data
        words.append(f"{entry.index}/{entry.term}{':' * bool(data)}{data.decode()}")
    return " ".join(words) or "-"


def _members(membership: Membership) -> str:
    parts = {"": membership.voters, "leaving ": membership.outgoing, "learners ": membership.learners}
    return ", ".join(f"{name}{' '.join(map(str, who))}" for name, who in parts.items() if who) or "-"


def told(message: Message) -> str:
    """A message in few words."""
    values = {
        name: getattr(message, name)
        for name in message.__struct_fields__
        if name not in ("to", "sender", "term")
    }
    words = []
    for name, value in values.items():
        if isinstance(value, bool):
            words += [name] if value else [f"not {name}"] if name == "granted" else []
        elif isinstance(value, list):
            words.append(_entries(value) if isinstance(message, messages.Append) else f"{len(value)}")
        elif isinstance(value, Snapshot):
            words.append(f"@{value.index}/{value.term}")
        elif isinstance(value, bytes):
            words.append(value.decode())
        elif name in ("commit", "round"):
            words += [f"{name} {value}"] if value else []
        # Of no interest in a script: random, or of another replica.
        elif name not in ("stamp", "as_of", "confirmed"):
            words.append(str(value))
    head = f"{message.sender}>{message.to} {type(message).__name__}"
    return " ".join([head, f"t{message.term}", *words])


def test_a_message_travels_as_it_is() -> None:
    entries = [Entry(2, 3, b"x")]
    for message in (
        messages.Append(1, 2, 3, 1, 1, entries, 1),
        messages.Chunk(1, 2, 3, Snapshot(5, 2, Membership((1,), (2,), (3,))), 7, b"z", True),
        messages.VoteRequest(1, 2, 3, 4, 5, True),
        messages.Forward(1, 2, 0, [b"a", b"b"]),
    ):
        assert messages.decode(messages.encode(message)) == message


def test_what_is_no_message_is_refused() -> None:
    for data in (b"", b"\x90", msgspec.msgpack.encode([99, 1, 2, 3]), msgspec.msgpack.encode([3, 1])):
        try:
            messages.decode(data)
        except msgspec.MsgspecError:
            continue
        raise AssertionError(data)
