"""The k8s strategy at a real HTTPS server that answers in the shapes of Kubernetes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from certs import Authority

from discovery.apiserver import ApiServer, listing, pod, slice_of, status
from gossamer.config.discovery import K8sConfig
from gossamer.discovery import Discovered, K8s
from gossamer.discovery.strategy import resolve_host

ME = ("10.244.1.7", 7946)
TWO = (("10.244.1.7", 7946), ("10.244.2.9", 7946))


class Mounted:
    """The directory that Kubernetes mounts into a pod: links to a directory that is replaced whole."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "serviceaccount"
        self.path.mkdir()
        self._versions = 0
        for name in ("token", "ca.crt", "namespace"):
            (self.path / name).symlink_to(f"..data/{name}")

    def hold(self, *, token: str, ca: str, namespace: str = "mqtt") -> None:
        self._versions += 1
        version = self.path / f"..{self._versions}"
        version.mkdir()
        (version / "token").write_text(token)
        (version / "ca.crt").write_text(ca)
        (version / "namespace").write_text(namespace)
        link = self.path / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.path / "..data")


@pytest.fixture
async def server(tmp_path: Path):
    async with ApiServer(tmp_path) as server:
        server.slices = [slice_of(pod("10.244.1.7", "gossamer-0"), pod("10.244.2.9", "gossamer-1"))]
        yield server


@pytest.fixture
def mounted(tmp_path: Path, server: ApiServer) -> Mounted:
    mounted = Mounted(tmp_path)
    mounted.hold(token=server.token + "\n", ca=server.authority.pem)
    return mounted


def asking(
    server: ApiServer,
    mounted: Mounted,
    resolve: Callable[[str], Awaitable[Sequence[str]]] = resolve_host,
    **keys: Any,
) -> K8s:
    config = {"apiserver": server.url, "credentials": mounted.path, **keys}
    return K8s(K8sConfig.model_validate(config), resolve=resolve)


async def test_slices_of_all_pages_are_the_members(server: ApiServer, mounted: Mounted) -> None:
    """Not ready counts, terminating does not; a slice may be of IPv6, or without endpoints."""
    server.slices = [
        slice_of(pod("10.244.1.7", "gossamer-0"), pod("10.244.2.9", "gossamer-1", ready=False)),
        slice_of(name="gossamer-empty"),
        slice_of(pod("10.244.3.3", "gossamer-2", terminating=True), name="gossamer-b"),
        slice_of(pod("fd00:10:244::5", "gossamer-3"), name="gossamer-c", kind="IPv6", port=7000),
        slice_of(pod("10.244.1.7", "gossamer-0"), name="gossamer-d"),
    ]
    for pages in (1, 3, 5):
        server.pages = pages
        found = await asking(server, mounted).discover(ME)
        assert found.problems == {}
        assert set(found.addresses) == {*TWO, ("fd00:10:244::5", 7000)}
    assert set(server.asked) == {""}


async def test_a_port_of_another_name_leaves_this_nodes_own(server: ApiServer, mounted: Mounted) -> None:
    found = await asking(server, mounted, port_name="swim").discover(("10.244.1.7", 9000))
    assert found.addresses == (("10.244.1.7", 9000), ("10.244.2.9", 9000))
    server.slices = [slice_of(pod("10.244.1.7", "gossamer-0"), port=None)]
    assert (await asking(server, mounted).discover(ME)).addresses == (ME,)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"address_type": "dns"}, ["10-244-1-7.mqtt.pod.cluster.local", "10-244-2-9.mqtt.pod.cluster.local"]),
        (
            {"address_type": "hostname"},
            ["gossamer-0.gossamer.mqtt.svc.cluster.local", "gossamer-1.gossamer.mqtt.svc.cluster.local"],
        ),
        (
            {"address_type": "hostname", "suffix": "svc.example"},
            ["gossamer-0.gossamer.mqtt.svc.example", "gossamer-1.gossamer.mqtt.svc.example"],
        ),
    ],
)
async def test_names_are_resolved_and_one_that_is_not_keeps_the_others(
    server: ApiServer, mounted: Mounted, keys: dict[str, str], names: list[str]
) -> None:
    answers: dict[str, list[str] | OSError] = {names[0]: ["10.0.0.1"], names[1]: ["10.0.0.2"]}

    async def resolve(host: str) -> Sequence[str]:
        answer = answers[host]
        if isinstance(answer, OSError):
            raise answer
        return answer

    strategy = asking(server, mounted, resolve, **keys)
    both = (("10.0.0.1", 7946), ("10.0.0.2", 7946))
    assert await strategy.discover(ME) == Discovered(both)
    answers[names[1]] = OSError(-3, "Temporary failure in name resolution")
    found = await strategy.discover(ME)
    assert found == Discovered(both, {names[1]: "Temporary failure in name resolution"})


async def test_a_token_that_rotates_is_read_anew(server: ApiServer, mounted: Mounted) -> None:
    strategy = asking(server, mounted)
    assert await strategy.discover(ME) == Discovered(TWO)
    server.token = "token-2"
    found = await strategy.discover(ME)
    assert found.addresses == TWO
    assert "401" in found.problems[server.url]
    mounted.hold(token="token-2", ca=server.authority.pem)
    assert await strategy.discover(ME) == Discovered(TWO)


async def test_an_authority_that_is_replaced_is_read_anew(
    server: ApiServer, mounted: Mounted, tmp_path: Path
) -> None:
    strategy = asking(server, mounted)
    assert await strategy.discover(ME) == Discovered(TWO)
    await server.down()
    old, server.authority = server.authority, Authority(tmp_path, "kubernetes-2")
    await server.up()
    assert "not one that ca.crt vouches for" in (await strategy.discover(ME)).problems[server.url]
    # In between, both are in the file, with names in UTF-8 between them as in some bundles.
    mounted.hold(token=server.token, ca=f"{old.pem}# Autorität\n{server.authority.pem}")
    assert await strategy.discover(ME) == Discovered(TWO)


async def test_a_certificate_for_another_host_is_refused(server: ApiServer, mounted: Mounted) -> None:
    await server.down()
    await server.up("other.example")
    found = await asking(server, mounted).discover(ME)
    assert found.addresses == ()
    assert "IP address mismatch" in found.problems[server.url]
    assert server.asked == [], "nobody but the API server sees the token"


async def test_the_namespace_is_that_of_the_pod_unless_given(server: ApiServer, mounted: Mounted) -> None:
    mounted.hold(token=server.token, ca=server.authority.pem, namespace="elsewhere")
    assert "404" in (await asking(server, mounted).discover(ME)).problems[server.url]
    assert await asking(server, mounted, namespace="mqtt").discover(ME) == Discovered(TWO)


REFUSALS = {
    401: "is it mounted into this pod",
    403: "may not list endpointslices in namespace mqtt",
    404: "Kubernetes 1.21 or newer",
    410: "changed while it was read",
    429: "too much to do",
    500: "not well",
    503: "not well",
    302: "is apiserver the URL of Kubernetes",
}


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_is_a_problem_in_words_and_keeps_what_is_known(
    server: ApiServer, mounted: Mounted, code: int
) -> None:
    strategy = asking(server, mounted)
    server.answer = code, status(code, "Reason", "words that differ with each try")
    first = await strategy.discover(ME)
    assert first.addresses == ()
    assert REFUSALS[code] in first.problems[server.url]
    server.answer = None
    assert await strategy.discover(ME) == Discovered(TWO)
    server.answer = code, b"other words"
    assert await strategy.discover(ME) == Discovered(TWO, first.problems)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", ""),
        (b"<html>a login page</html>", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", ""),
        (b'{"items": null}', ""),
        (b'{"kind": "EndpointSliceList"', ""),
        (b'{"kind": "EndpointSliceList"}', "missing required field `items`"),
        (b'{"items": [], "kind": ' + b"[" * 200_000, "recursion"),
        (b"\xff\xfe\x00", ""),
        (b"[" * 200_000, ""),
        (status(200, "", ""), ""),
        (listing(), None),
        (listing({"endpoints": [{"addresses": ["not-an-address"]}, 7, {"addresses": "10.0.0.1"}]}), None),
        (json.dumps({"items": [None, 7, [], {}, {"endpoints": 7}, {"ports": 7}]}).encode(), None),
    ],
    ids=range(14),
)
async def test_what_is_no_list_is_told_with_the_reason_and_never_an_empty_list(
    server: ApiServer, mounted: Mounted, body: bytes, reason: str | None
) -> None:
    strategy = asking(server, mounted)
    assert await strategy.discover(ME) == Discovered(TWO)
    server.answer = 200, body
    found = await strategy.discover(ME)
    assert found.addresses == TWO
    (problem,) = found.problems.values()
    if reason is not None:
        assert re.search(rf"no list of EndpointSlices \(.*{reason}.*\); is apiserver right", problem)


async def test_what_is_half_right_is_used(server: ApiServer, mounted: Mounted) -> None:
    half = {**slice_of(pod("10.244.2.9", "gossamer-1")), "ports": [{"name": "gossip", "port": 99_999}, 7]}
    half["endpoints"] = [7, None, {"addresses": 7}, {"addresses": ["10.244.2.9"], "conditions": None}]
    server.answer = 200, listing({"endpoints": 7}, half)
    assert await asking(server, mounted).discover(ME) == Discovered((("10.244.2.9", 7946),))


async def test_an_answer_without_end_is_cut_off(
    server: ApiServer, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.discovery.k8s._MAX_ANSWER", 10_000)

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b" " * 0x400 + b"\r\n")
            await writer.drain()

    server.behave = endless
    problem = (await asking(server, mounted).discover(ME)).problems[server.url]
    assert "larger than 10000 bytes" in problem


async def test_a_slow_a_silent_and_a_rude_server_are_each_the_same_problem_at_every_try(
    server: ApiServer, mounted: Mounted
) -> None:
    strategy = asking(server, mounted, timeout="300ms")
    greeted: list[bytes] = []

    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    async def rude(writer: asyncio.StreamWriter) -> None:
        greeted.append(b"SSH-2.0-OpenSSH_%d\r\n" % len(greeted))
        writer.write(greeted[-1])

    async def abrupt(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{")

    expected = {
        silent: "did not answer within 0.3 s",
        slow: "did not answer within 0.3 s",
        rude: "does not speak HTTP",
        abrupt: "broke off",
    }
    for behaviour, words in expected.items():
        server.behave = behaviour
        problems = [(await strategy.discover(ME)).problems for _ in range(2)]
        assert problems[0] == problems[1]
        assert words in problems[0][server.url]


async def test_a_server_that_is_down_is_asked_again_until_it_is_there(
    server: ApiServer, mounted: Mounted
) -> None:
    strategy = asking(server, mounted)
    await server.down()
    for _ in range(2):
        found = await strategy.discover(ME)
        assert found == Discovered((), {server.url: "the API server cannot be asked: nothing answers there"})
    await server.up()
    assert await strategy.discover(ME) == Discovered(TWO)
    await server.down()
    found = await strategy.discover(ME)
    assert found.addresses == TWO
    assert found.problems
    await server.up()
    assert await strategy.discover(ME) == Discovered(TWO)


async def test_files_that_cannot_be_used_are_named_and_a_token_is_never_shown(
    server: ApiServer, mounted: Mounted
) -> None:
    strategy = asking(server, mounted)
    for name, changes, words in (
        ("token", {"token": "hunter2\nhunter2"}, "more than one token"),
        ("ca.crt", {"ca": "no certificate"}, "no certificates in PEM"),
        ("namespace", {"namespace": "../../secrets"}, "no name of a namespace"),
    ):
        mounted.hold(**{"token": server.token, "ca": server.authority.pem, **changes})
        found = await strategy.discover(ME)
        assert found.problems == {str(mounted.path / name): f"holds {words}"}
    assert server.asked == []
    server.token = "hunter2"
    mounted.hold(token="hunter2", ca=server.authority.pem)
    server.answer = 403, b"hunter2"
    assert "hunter2" not in str(await strategy.discover(ME))


async def test_without_mounted_files_a_proxy_may_stand_in(server: ApiServer, tmp_path: Path) -> None:
    """Nothing is mounted: the authorities of the system count, and ``default`` is the namespace."""
    config = K8sConfig(apiserver=server.url, credentials=tmp_path / "nothing")
    found = await K8s(config).discover(ME)
    assert "not one that ca.crt vouches for" in found.problems[server.url]


def test_the_pods_own_api_server_is_asked_unless_another_is_named() -> None:
    def url(apiserver: str = "", **environ: str) -> str:
        return K8s(K8sConfig(apiserver=apiserver), environ=environ)._url

    assert url() == "https://kubernetes.default.svc"
    assert url(KUBERNETES_SERVICE_HOST="10.96.0.1") == "https://10.96.0.1:443"
    assert url(KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="6443") == "https://[fd00::1]:6443"
    assert url("https://api.example:6443/", KUBERNETES_SERVICE_HOST="x") == "https://api.example:6443"
