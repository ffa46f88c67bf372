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
        key = (row["client"], row["filter"])
        ends = [
            r
            for r in by[schema.SUBSCRIBED] + by[schema.UNSUBSCRIBED]
            if (r["client"], r["filter"]) == key and r is not row
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
            came[row["origin"], number, row["client"]].append(row["t"])
    verdicts = Counter()
    for row in by[schema.PUBLISHED]:
        takers = defaultdict(list)
        for (client, topic_filter), spans in held.items():
            if matches(topic_filter, row["topic"]):
                takers[client] += [s for s in spans if s[0] - settle <= row["t"] < s[1] + settle]
        for number in range(row["message"], row["message"] + row["count"]):
            for client, spans in takers.items():
                if spans:
                    copies = came.pop((row["origin"], number, client), [])
                    verdict = one(row, spans, stays[client], copies, settle, late_after, last)
                    verdicts[verdict] += verdict is not None
    verdicts["misrouted"] += len(came)
    return {k: v for k, v in verdicts.items() if v}


def one(row, spans, stays, copies, settle, late_after, last):
    t = row["t"]
    before = [s for s in stays if s[0] <= t]
    had = next((s for s in stays if s[0] <= t < s[1]), None)
    later = [s[0] for s in stays if s[0] > t]
    can = t if had else min(later, default=None)
    certain = False
    for begin, end, subscribed in spans:
        standing = begin + settle <= t < end - settle
        online = had is not None and had[0] + settle <= t < had[1] - settle
        kept = min(row["qos"], subscribed["qos"]) > 0 and bool(before) and max(before)[2]["persistent"]
        certain |= standing and (online or kept)
    due = max(t, can or t) + late_after
    if len(copies) > 1:
        return "doubled"
    if copies:
        return "late" if copies[0] > due else "delivered"
    if not certain:
        return None
    if not ((had and had[1] >= t + settle) or later):
        return "queued"
    return "undecidable" if due > last else "lost"
