"""Where did every message go? A first look at a recording, by the jobs and by questions of your own.

$ python examples/audit.py
the recording: 3 nodes, 6 files, 0 problems, 0 holes
12 deliveries were owed: 10 delivered, 1 doubled, 1 lost
lost: site/2/dev for dashboard, node1@10.0.0.1 to node2@10.0.0.2: lost on the link
busiest topics: site/1/dev 6, site/2/dev 6
messages a publisher sent, and how many copies of them were delivered: sensor 12 12

Takes a directory that recorders wrote as its argument; without one it makes a small recording of its own, in
which one delivery is missing and one came twice. It needs the extra ``audit``; where much was
recorded, Java 17 and the extra ``spark``.
"""

import sys
import tempfile
from pathlib import Path

from gossamer.audit import EventFile, schema
from gossamer.spark import load, open_engine, verdicts

NODES = ("node1@10.0.0.1", "node2@10.0.0.2", "node3@10.0.0.3")
SECOND = 1_000_000
START = 1_767_225_600 * SECOND


def look(directory: str) -> None:
    # DuckDB, or Spark where there is much: what is asked is one text for both. Of a cluster, give its master.
    engine = open_engine(directory)
    # Looks at the end of each file: which are whole, whose they are, and what is missing in between. Problems
    # name the files that are not read as they are; holes are the times at which a recorder was not looking.
    recording = load(engine, directory)
    # A local Spark is set to the size of what it works on.
    engine.fit(recording.size)
    print(
        f"the recording: {len(recording.nodes)} nodes, {recording.files} files, "
        f"{len(recording.problems)} problems, {len(recording.holes)} holes"
    )

    # A row per message and receiver: who sent it, when, who was to get it, the verdict, where it was lost.
    # Kept, since three questions are asked of it. With Spark it is a view: ``engine.session.table(judged)``.
    judged = engine.keep(verdicts(recording))
    counted = engine.rows(f"SELECT verdict, count(*) AS n FROM {judged} GROUP BY verdict ORDER BY verdict")
    found = {row["verdict"]: row["n"] for row in counted}
    owed = sum(found.get(verdict, 0) for verdict in ("delivered", "late", "doubled", "lost", "queued"))
    print(f"{owed} deliveries were owed: " + ", ".join(f"{n} {verdict}" for verdict, n in found.items()))
    for row in engine.rows(f"SELECT * FROM {judged} WHERE verdict = 'lost' ORDER BY message LIMIT 10"):
        print(f"lost: {row['topic']} for {row['receiver']}, {row['hop']}")

    # A question that no job answers: the events are there, a row each, as docs/design/audit.md lists them.
    published = f"(SELECT * FROM {recording.events} WHERE event = '{schema.PUBLISHED}')"
    rows = engine.rows(
        f"SELECT topic, sum(count) AS messages FROM {published} GROUP BY topic "
        "ORDER BY messages DESC, topic LIMIT 5"
    )
    print("busiest topics: " + ", ".join(f"{row['topic']} {row['messages']}" for row in rows))

    # What was recorded beside what was judged of it.
    sent = f"(SELECT client AS publisher, sum(count) AS sent FROM {published} GROUP BY client)"
    copies = f"(SELECT publisher, sum(copies) AS copies FROM {judged} GROUP BY publisher)"
    rows = engine.rows(f"SELECT * FROM {sent} JOIN {copies} USING (publisher) ORDER BY publisher LIMIT 5")
    said = ", ".join(f"{row['publisher']} {row['sent']} {row['copies']}" for row in rows)
    print(f"messages a publisher sent, and how many copies of them were delivered: {said}")
    engine.close()


def make(root: Path) -> None:
    """Twelve messages from a sensor at node 1 to a dashboard at node 2; node 3 looks on."""
    rows = {node: [] for node in NODES}

    def note(node: str, at: int, event: str, **columns: object) -> None:
        row = {
            "seq": len(rows[node]) + 1,
            "event": event,
            "at": START + at,
            "hlc": (START + at) // 1000 << 16,
        }
        rows[node].append({**row, "recorder": node, "creation": 1, "count": 1, **columns})

    one, two, _ = NODES
    for node in NODES:
        note(node, 0, schema.OPENED, detail='{"share": 1.0}')
    note(one, SECOND, schema.CONNECTED, client="sensor", persistent=False, present=False)
    note(two, SECOND, schema.CONNECTED, client="dashboard", persistent=False, present=False)
    note(two, 2 * SECOND, schema.SUBSCRIBED, client="dashboard", filter="site/#", qos=1, no_local=False)
    for number in range(1, 13):
        at = number * 10 * SECOND
        name = {"origin": one, "origin_creation": 1, "message": number}
        topic = f"site/{1 + number % 2}/dev"
        note(one, at, schema.PUBLISHED, client="sensor", topic=topic, qos=1, size=20, **name)
        note(one, at + 100, schema.FORWARDED, peer=two, **name)
        if number != 5:
            note(two, at + 900, schema.RECEIVED, peer=one, topic=topic, **name)
            for copy in range(2 if number == 8 else 1):
                note(two, at + 1500 + copy, schema.DELIVERED, client="dashboard", qos=1, **name)
    for node in NODES:
        note(node, 180 * SECOND, schema.CLOSED)
    for node, written in rows.items():
        for part in (written[: len(written) // 2], written[len(written) // 2 :]):
            file = EventFile(root, node=node, creation=1, first=part[0]["seq"], wall=part[0]["at"] / 1e6)
            names = {name for row in part for name in row}
            file.add({name: [row.get(name) for row in part] for name in names})
            file.finish(closed=part[-1]["event"] == schema.CLOSED)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        look(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            make(Path(directory))
            look(directory)
