"""The load generators count what they are there to count: proved on a broker that is faulty by number."""

import asyncio
import os
from functools import partial

import pytest
from certs import Authority
from mqtt.listening import broker_with, tls_section

from bench.faulty import compiled, load, told

pytestmark = [pytest.mark.real, compiled]

PORTS = ("pub_ports", "sub_ports")
run = partial(told, ports=PORTS, pubs=1, subs=1, drain=0.3)
hold = partial(told, "hold", hold=0.05)


def of(outcome, *keys):
    return [outcome[key] for key in keys]


@pytest.mark.parametrize(
    ("copies", "count", "faults"),
    [
        pytest.param(lambda n: 1, 1000, [1000, 0, 0, 0, 0], id="none"),
        pytest.param(lambda n: 0 if n % 10 == 0 else 1, 1000, [1000, 100, 0, 0, 0], id="lost"),
        pytest.param(lambda n: 2 if n % 8 == 0 else 1, 1000, [1000, 0, 125, 0, 0], id="duplicated"),
        pytest.param(lambda n: -1 if n % 20 == 0 else 1, 999, [999, 0, 0, 49, 0], id="reordered"),
    ],
)
async def test_faults_are_counted(copies, count, faults):
    outcome = await run(copies=copies, count=count)
    assert of(outcome, "sent", "lost", "duplicated", "reordered", "foreign") == faults


async def test_a_closed_loop_goes_on_after_losses():
    outcome = await run(copies=lambda n: 0 if n == 100 else 1, lag=1, count=200)
    assert of(outcome, "sent", "lost", "duplicated", "stalls") == [200, 1, 0, 1]


async def test_a_bad_option_is_named():
    program = await asyncio.to_thread(load.build)
    process = await asyncio.create_subprocess_exec(
        str(program), "pattern=star", "pub_ports=1", "sub_ports=1", stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"pattern= takes pair, fanout, fanin or wildcard" in said


async def test_idle_connections_are_counted():
    outcome = await hold(mode="idle", count=30)
    assert of(outcome, "asked", "opened", "most_open", "lost") == [30, 30, 30, 0]


async def test_connections_that_the_broker_closes_make_room_for_others():
    outcome = await hold(mode="silent", count=60, at_once=10, room=5, patience=30)
    assert outcome["asked"] == outcome["opened"] + outcome["failed"] == 60


@pytest.mark.parametrize("copies", [1, 2])
async def test_every_topic_matches_one_filter_and_copies_are_counted(copies):
    options = {"mode": "subs", "clients": 3, "filters": 60, "batch": 7, "pubs": 2, "seconds": 0.2}
    outcome = await hold(copies=lambda _: copies, **options)
    assert of(outcome, "filters", "refused", "lost", "foreign") == [180, 0, 0, 0]
    assert outcome["received"] > 0
    assert outcome["duplicated"] >= outcome["received"] - 100 if copies > 1 else not outcome["duplicated"]


async def test_messages_of_many_topics_and_sizes_are_each_counted():
    outcome = await run(copies=lambda _n: 1, count=300, topics=20, payload=20, most=200)
    assert of(outcome, "sent", "lost", "duplicated", "foreign") == [300, 0, 0, 0]


def test_connections_over_tls_are_counted_and_those_that_resume(tmp_path):
    """Each thread has one connection before it has a session to show."""

    ca = Authority(tmp_path)

    async def body():
        async with broker_with({"type": "tls", "tls": tls_section(ca)}) as broker:
            given = {
                "port": broker.ports["tls:0"],
                "ca": ca.file,
                "count": 20,
                "at_once": 2,
                "pids": os.getpid(),
            }
            return [await asyncio.to_thread(load.tls, resume=resume, **given) for resume in (0, 1)]

    fresh, resumed = asyncio.run(body())
    assert of(fresh, "lost", "resumed") == [0, 0]
    assert resumed["lost"] == 0
    assert resumed["resumed"] >= 16
