"""The same question asked by brute force: every message against every subscription, in plain Python."""

from collections import Counter, defaultdict

from gossamer.audit import schema
from gossamer.routes import matches

FOREVER = 2**62


def intervals(changes, ends):
    """(begin, end, row) of each row of ``changes`` until the next one in ``ends``."""
    return [
        (
            row["t"],
            min((e["t"] for e in ends if (e["t"], e["hlc"]) > (row["t"], row["hlc"])), default=FOREVER),
            row,
        )
        for row in changes
    ]


def judge(rows, *, settle, late_after):
    """Counts of verdicts of a recording without holes, all of whose messages are in the span."""
    rows = sorted(
        ({**r, "t": r["at"] - (r.get("offset_us") or 0)} for r in rows), key=lambda r: (r["t"], r["hlc"])
    )
    last = max(r["t"] for r in rows)
    by = defaultdict(list)
    for row in rows:
        by[row["event"]].append(row)
    held = defaultdict(list)
    for row in by[schema.SUBSCRIBED]:
        key = (row["client"], row["filter"], row.get("share"))
        ends = [
            r
            for r in by[schema.SUBSCRIBED] + by[schema.UNSUBSCRIBED]
            if (r["client"], r["filter"], r.get("share")) == key and r is not row
        ] + [
            r
            for r in by[schema.ENDED] + [c for c in by[schema.CONNECTED] if c.get("present") is False]
            if r["client"] == key[0]
        ]
        held[key] += intervals([row], ends)
    stays = defaultdict(list)
    for client in {r["client"] for r in by[schema.CONNECTED]}:
        at_node, changes = None, []
        for row in rows:
            if row.get("client") != client:
                continue
            if row["event"] == schema.CONNECTED:
                at_node = row["recorder"]
                changes.append(row)
            elif row["event"] == schema.DISCONNECTED and row["recorder"] == at_node:
                changes.append(row)
        stays[client] = intervals([r for r in changes if r["event"] == schema.CONNECTED], changes)
    came = defaultdict(list)
    for row in by[schema.DELIVERED]:
        for number in range(row["message"], row["message"] + row["count"]):
            came[row["origin"], number, receiver(row)].append(row["t"])
    verdicts = Counter()
    for row in by[schema.PUBLISHED]:
        takers = defaultdict(list)
        for (client, topic_filter, _), spans in held.items():
            if matches(topic_filter, row["topic"]):
                for span in spans:
                    own = span[2].get("no_local") and client == row["client"]
                    if span[0] - settle <= row["t"] < span[1] + settle and not own:
                        takers[receiver(span[2])].append((span, client))
        for number in range(row["message"], row["message"] + row["count"]):
            for name, held_by in takers.items():
                copies = came.pop((row["origin"], number, name), [])
                verdict = one(row, held_by, stays, copies, settle, late_after, last)
                verdicts[verdict] += verdict is not None
    verdicts["misrouted"] += len(came)
    return {k: v for k, v in verdicts.items() if v}


def receiver(row):
    """A client, or the share group of which one member is to get it."""
    return f"$share/{row['share']}/{row['filter']}" if row.get("share") else row["client"]


def one(row, held_by, stays, copies, settle, late_after, last):
    """The verdict on one message for one receiver, of whose subscriptions ``held_by`` were near."""
    t = row["t"]
    certain = chance = False
    moments = []
    for (begin, end, subscribed), client in held_by:
        before = [s for s in stays[client] if s[0] <= t]
        had = next((s for s in stays[client] if s[0] <= t < s[1]), None)
        later = [s[0] for s in stays[client] if s[0] > t]
        can = t if had else min(later, default=None)
        if can is not None:
            moments.append(can)
        standing = begin + settle <= t < end - settle
        online = had is not None and had[0] + settle <= t < had[1] - settle
        kept = (
            min(row["qos"], subscribed["qos"]) > 0
            and bool(before)
            and max(before, key=lambda s: s[0])[2]["persistent"]
        )
        certain |= standing and (online or kept)
        chance |= bool((had and had[1] >= t + settle) or later)
    due = max(t, min(moments, default=t)) + late_after
    if len(copies) > 1:
        return "doubled"
    if copies:
        return "late" if copies[0] > due else "delivered"
    if not certain:
        return None
    if not chance:
        return "queued"
    return "undecidable" if due > last else "lost"
