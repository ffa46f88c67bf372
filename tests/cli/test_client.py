"""The client behind the commands: what it reads of streams."""

import json

import httpx

from gossamer.cli.client import ApiClient


def test_a_stream_is_read_by_line_feeds_whatever_the_names_in_it_hold():
    names = ["a\u2028b", "c\u0085d", "e\x1cf", "é" * 3]
    lines = "".join(json.dumps({"client": name}, ensure_ascii=False) + "\n" for name in names).encode()
    pieces = [lines[at : at + 7] for at in range(0, len(lines), 7)]
    answer = httpx.Response(200, content=iter(pieces))
    with ApiClient("http://n", transport=httpx.MockTransport(lambda _: answer)) as client:
        found = list(client.stream("/api/v1/clients", {}, silence=1.0))
    assert [row["client"] for row in found] == names
