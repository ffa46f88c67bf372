"""Who answers is doubted: each way to go wrong has its code and says what to do."""

import json
import ssl

import httpx
import pytest
from certs import Authority

from cli.servers import say, serving
from gossamer.cli import ExitCode
from gossamer.cli.client import ApiClient
from gossamer.cli.errors import did_you_mean, exit_code_of, reason_of
from gossamer.errors import ConfigError, PeerError, TransportError, UnavailableError, UsageError


def answering(body, *, status=200, kind="application/json", context=None):
    """A server of somebody else."""
    headers = {"content_type": kind, "content_length": len(body)}
    return serving(lambda handler: say(handler, status, body, **headers), context=context)


def problem(status, title, detail):
    return json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()


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


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b'"nodes"', b'{"detail": "Not Found"}'])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_whoever_is_no_node_is_not_taken_for_one(run, body, status):
    with answering(body, status=status) as url:
        outcome = run("nodes", "--api", url)
    assert (outcome.code, outcome.out) == (ExitCode.UNREACHABLE, "")
    assert "of a gossamer node" in outcome.err


def test_a_node_of_another_version_with_more_to_tell_is_understood(run):
    row = {
        "name": "n1",
        "status": "dozing",
        "link": "self",
        "address": "127.0.0.1:1",
        "ports": {},
        "pid": 1,
        "routes": 0,
        "started_at": 0.0,
        "moon": "full",
    }
    with answering(json.dumps([row]).encode()) as url:
        assert run("nodes", "--api", url).out.split()[7:9] == ["n1", "dozing"]
        assert run("nodes", "--api", url, "--json").json["items"] == [row]


def test_a_node_of_another_version_with_less_to_tell_is_named_as_such(run):
    with answering(b'[{"name": "n1"}]') as url:
        outcome = run("nodes", "--api", url)
        assert outcome.code == ExitCode.UNREACHABLE
        assert (
            "a node's answer has no 'status'; it may be of another version than this command" in outcome.err
        )
        assert run("nodes", "--api", url, "--json").json["items"] == [{"name": "n1"}]


def test_a_node_that_does_not_know_a_route_is_of_another_version(run):
    body = problem(404, "Not Found", "GET /api/v1/nodes")
    with answering(body, status=404, kind="application/problem+json") as url:
        outcome = run("nodes", "--api", url)
    assert outcome.code == ExitCode.UNREACHABLE
    assert "does not know GET /api/v1/nodes; it may be of another version" in outcome.err


def test_a_wrong_token_says_where_it_comes_from(run, served, monkeypatch):
    monkeypatch.setenv("GOSSAMER_TOKEN", "gsm_0123456789ab_" + "x" * 43)
    outcome = run("nodes", "--api", served.url)
    assert outcome.code == ExitCode.REFUSED
    assert "GOSSAMER_TOKEN" in outcome.err
    monkeypatch.setenv("GOSSAMER_TOKEN", "two\nlines")
    assert run("nodes", "--api", served.url).code == ExitCode.REFUSED
    monkeypatch.delenv("GOSSAMER_TOKEN")
    monkeypatch.setenv("GOSSAMER_TOKEN_FILE", "/nowhere/token")
    assert "/nowhere/token" in run("nodes", "--api", served.url).err


def test_a_role_that_is_not_enough_says_which_is(run, served, monkeypatch):
    made = run("tokens", "create", "dash", "--role", "viewer", "--json", "--api", served.url)
    monkeypatch.setenv("GOSSAMER_TOKEN", made.json["token"])
    assert run("nodes", "--api", served.url).code == 0
    outcome = run("clients", "kick", "c1", "--api", served.url)
    assert outcome.code == ExitCode.REFUSED
    assert "this takes the role operator; dash is viewer; give a token of that role" in outcome.err


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (":8091", "http://127.0.0.1:8091"),
        ("8091", "http://127.0.0.1:8091"),
        ("localhost:1", "http://localhost:1"),
        ("localhost:1/", "http://localhost:1"),
        ("https://gate/broker", "https://gate/broker"),
        ("https://gate/broker/", "https://gate/broker"),
    ],
)
def test_an_address_needs_no_scheme(given, url):
    assert ApiClient(given).url == url


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


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:1", "http://[::", "http://127.0.0.1:x"])
def test_what_is_no_address_is_said_to_be_none(run, url):
    outcome = run("nodes", "--api", url)
    assert outcome.code == ExitCode.USAGE
    assert f"--api: got {url!r}" in outcome.err


def test_tls_where_there_is_none_is_told(run, served):
    outcome = run("nodes", "--api", served.url.replace("http:", "https:"))
    assert outcome.code == ExitCode.UNREACHABLE
    assert "does not speak TLS there: try http://" in outcome.err


def test_no_tls_where_there_is_some_is_told():
    assert "try https://" in reason_of(httpx.RemoteProtocolError("illegal status line"))
    body = b"The plain HTTP request was sent to HTTPS port"
    with (
        answering(body, status=400, kind="text/html") as url,
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


def test_certificates_that_cannot_be_read_are_told(run, monkeypatch):
    monkeypatch.setenv("GOSSAMER_CACERT", "/nowhere/ca.pem")
    outcome = run("nodes", "--api", "https://127.0.0.1:1")
    assert outcome.code == ExitCode.REFUSED
    assert "GOSSAMER_CACERT: /nowhere/ca.pem" in outcome.err


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
