"""Who answers is doubted: each way to go wrong has its code and says what to do."""

import json
import ssl

import httpx
import pytest
from certs import Authority

from cli.servers import answering
from gossamer.cli import ExitCode
from gossamer.cli.client import ApiClient
from gossamer.cli.errors import did_you_mean, exit_code_of, reason_of
from gossamer.errors import ConfigError, PeerError, TransportError, UnavailableError, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x", []), 3),
        (UsageError("x"), 5),
        (PeerError("x"), 4),
        (TransportError("x"), 4),
        (UnavailableError("x"), 6),
        (RuntimeError("x"), 1),
    ],
)
def test_the_branch_of_the_error_tree_is_the_code(error, code):
    assert exit_code_of(error) == code


def test_an_address_needs_no_scheme():
    for given in (":8091", "8091", "127.0.0.1:8091/", "http://127.0.0.1:8091"):
        assert ApiClient(given).url == "http://127.0.0.1:8091"
    assert ApiClient("https://gate/broker/").url == "https://gate/broker"


def test_a_path_before_the_api_and_a_query_behind_it_are_kept():
    asked = []

    def handler(request):
        asked.append(str(request.url))
        return httpx.Response(200, json=[])

    client = ApiClient("https://gate/broker", transport=httpx.MockTransport(handler), node="n 2@a")
    assert client.rows("/api/v1/tables") == []
    assert client.rows("tables?fold=5", {"after": None}) == []
    assert asked == [
        "https://gate/broker/api/v1/nodes/n%202@a/tables",
        "https://gate/broker/api/v1/nodes/n%202@a/tables?fold=5",
    ]


def test_tls_where_there_is_none_is_told(run, served):
    outcome = run("nodes", "--api", served.url.replace("http:", "https:"))
    assert outcome.code == ExitCode.UNREACHABLE
    assert "does not speak TLS there: try http://" in outcome.err


def test_no_tls_where_there_is_some_is_told():
    assert "try https://" in reason_of(httpx.RemoteProtocolError("illegal status line"))
    body = b"The plain HTTP request was sent to HTTPS port"
    with (
        answering(body, status=400) as url,
        pytest.raises(TransportError, match="try https://"),
    ):
        ApiClient(url).rows("/api/v1/nodes")


def test_a_certificate_counts_once_its_authority_is_named(run, monkeypatch, tmp_path):
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("api", "127.0.0.1"))
    with answering(b"[]", context=context) as url:
        refused = run("nodes", "--api", url)
        assert refused.code == ExitCode.UNREACHABLE
        assert "its certificate is not trusted" in refused.err
        assert "GOSSAMER_CACERT" in refused.err
        monkeypatch.setenv("GOSSAMER_CACERT", str(authority.file))
        assert run("nodes", "--api", url, "--json").json == {"items": []}
        plain = run("nodes", "--api", url.replace("https:", "http:"))
        assert plain.code == ExitCode.UNREACHABLE


def test_names_like_a_wrong_one():
    known = ["sensor-1", "sensor-2", "boiler"]
    assert did_you_mean("Sensor-1", known) == "; did you mean sensor-1 or sensor-2?"
    assert did_you_mean("boil", known) == "; did you mean boiler?"
    assert did_you_mean("xyz", known) == ""


def test_a_list_that_breaks_off_says_so(run):
    def handler(request):
        def lines():
            yield b'{"client": "a", "node": "n"}\n'
            raise httpx.ReadError("reset")

        return httpx.Response(200, content=lines())

    client = ApiClient("http://n", transport=httpx.MockTransport(handler))
    rows = iter(client.listed("/api/v1/clients"))
    assert next(rows)["client"] == "a"
    with pytest.raises(TransportError, match="broke off"):
        next(rows)


def test_a_stream_is_read_by_line_feeds_whatever_the_names_in_it_hold():
    names = ["a\u2028b", "c\u0085d", "e\x1cf", "é" * 3]
    lines = "".join(json.dumps({"client": name}, ensure_ascii=False) + "\n" for name in names).encode()
    pieces = [lines[at : at + 7] for at in range(0, len(lines), 7)]
    answer = httpx.Response(200, content=iter(pieces))
    with ApiClient("http://n", transport=httpx.MockTransport(lambda _: answer)) as client:
        found = list(client.stream("/api/v1/clients", {}, silence=1.0))
    assert [row["client"] for row in found] == names
