"""A value that cannot be right ends a command with 2, whatever verb it stands behind, whoever finds it.

So it is also where no node answers, so that scripts can tell their own mistakes from those of the cluster.
What may be right and is not there (a node, a client, an id of the right form) is another matter: 5.
"""

import io
import re
import shlex

import pytest

from cli.test_command_list import ALL
from gossamer.spark.__main__ import main as jobs

BAD_API = "--api 'http://h:moon'"
WRONG = {
    "start": ["-c /nowhere/node.yaml --json=7"],
    "up": ["--nodes 0", "--nodes many", "--mqtt-port moon", "--nodes 3 --api-port 1,2", "--set nonsense"],
    "config check": ["--nope"],
    "config schema": ["--nope"],
    "config show": [f"--node n1 {BAD_API}"],
    "config reload": [BAD_API],
    "passwd": ["users 'a:b' --stdin", "users '' --stdin"],
    "top": [BAD_API, "--samples some", "--samples -1"],
    "live": [BAD_API, "--watch soon"],
    "nodes list": [BAD_API, "--watch soon"],
    "nodes show": [f"n1 {BAD_API}"],
    "cluster status": [BAD_API],
    "cluster members": [BAD_API],
    "cluster join": ["10.0.0.1:moon", "10.0.0.1:99999"],
    "cluster leave": [BAD_API, "--nope"],
    "cluster force-leave": [f"n1 {BAD_API}"],
    "cluster keys list": [BAD_API],
    "cluster keys install": ["-"],
    "cluster keys use": ["short", f"5f0c2d9a {BAD_API}"],
    "cluster keys remove": [f"5f0c2d9a {BAD_API}"],
    "events": ["--limit 0", "--limit some"],
    "alarms list": [BAD_API, "--limit 0"],
    "alarms raise": ["'Not a name' text", "UPPER text"],
    "alarms clear": ["'Not a name'"],
    "clients list": ["--limit 0", "--limit -3"],
    "clients show": [f"c1 {BAD_API}", "''"],
    "clients kick": [f"c1 {BAD_API}", "''"],
    "sessions list": ["--limit 0"],
    "sessions show": [f"c1 {BAD_API}", "''"],
    "sessions end": [f"c1 {BAD_API}"],
    "subscriptions list": ["--limit 0"],
    "topics list": ["'a/#'", "a/+/b", "''", "--limit 0"],
    "topics match": ["'a/#'", "''"],
    "routes list": ["--limit 0"],
    "routes verify": [BAD_API],
    "retained list": ["'a/#/b'", "'a+'", "''"],
    "retained remove": ["'a/#'", "''"],
    "publish": ["'a/#' x", "a/+/b x", "'' x", "a x --qos 3"],
    "ps": ["--fold none"],
    "trace": ["''", "n1.31 --seconds 0", "n1.31 --seconds soon", "n1.31 --limit 0"],
    "tables list": [BAD_API],
    "tables show": [f"routes {BAD_API}"],
    "log-level show": [BAD_API],
    "log-level set": ["loud"],
    "backup": ["--to relative/path.db"],
    "drill partition": [
        "--split 9/9",
        "--split moon",
        "--nodes 1",
        "--for soon",
        "--backend moon",
        "--set no",
    ],
    "drill flapping": ["--period soon", "--split 1"],
    "drill slow": ["--delay soon", "--loss 200%", "--loss much"],
    "drill kill": ["--node 9", "--node who"],
    "drill pause": ["--for -1s", "--node 0"],
    "drill rolling": ["--nodes 99"],
    "drill clock": ["--jump soon"],
    "drill coordinator": ["--split 9/9"],
    "drill disk": ["--node 99"],
    "drill suite": ["--only nope"],
    "drill list": [BAD_API],
    "drill start": [
        "nope",
        "kill --nodes 1",
        "kill --nodes 99",
        "partition --for soon",
        "kill --here",
        "rolling --split 2/1",
        "partition --split 3/3",
    ],
    "drill show": ["'no id'"],
    "drill follow": ["'no id'"],
    "drill stop": ["'no id'"],
    "drill report": ["'no id'"],
    "autoheal status": [BAD_API],
    "autoheal set": ["--autoheal soon", "--autoclean -5m"],
    "autoheal history": [BAD_API],
    "autoheal plan": [BAD_API],
    "autoheal quarantine list": [BAD_API],
    "autoheal quarantine replay": ["1f0c-3", f"0123456789ab {BAD_API}"],
    "audit status": [BAD_API],
    "audit set": ["--sample 2", "--sample none", "--keep-for soon", "--keep-size moon", "--rotate-after 0s"],
    "audit run": ["nope", "report --from soon", "report --fail-on nope", "report --engine moon"],
    "audit stream": ["--alarm-on nope", "--every soon", "--conf nope"],
    "audit list": [BAD_API],
    "audit start": ["nope", "report --from soon", "completeness --fail-on nope"],
    "audit show": ["'no id'"],
    "audit follow": ["'no id'"],
    "audit stop": ["'no id'"],
    "audit report": ["'no id'"],
    "tokens list": [BAD_API],
    "tokens create": [
        f"{'a' * 101} --role viewer",
        "'a!b' --role viewer",
        "ci --role king",
        "ci --expires soon",
        "ci --expires 0s",
    ],
    "tokens revoke": ["nope"],
    "completion": ["tcsh", "tcsh --install"],
    "support-bundle": [BAD_API],
}
"""Of every verb, what may be typed behind it that is wrong."""


def test_every_verb_is_in_the_table():
    assert sorted(WRONG) == sorted(ALL)


def instead(program, arguments):
    assert arguments[:3] == [program, "-m", "gossamer.spark"]
    jobs(arguments[3:])


@pytest.fixture(params=["a node", "no node"])
def api(request):
    """Of a node, or one at which nobody answers."""
    return request.getfixturevalue("served").url if request.param == "a node" else "http://127.0.0.1:1"


@pytest.fixture
def at(api, run, monkeypatch, tmp_path):
    def at(line):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GOSSAMER_API", api)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        # Jobs run in place of the command, and would do so in place of the tests.
        monkeypatch.setattr("os.execv", instead)
        return run(*shlex.split(line))

    return at


@pytest.mark.parametrize("line", [f"{verb} {words}" for verb, lines in WRONG.items() for words in lines])
def test_a_wrong_value_ends_with_2(at, line):
    ended = at(line)
    assert (ended.code, ended.out) == (2, ""), ended.err
    # What Python, or a library, says is for who writes programs.
    assert not re.search(r"Traceback|(String|Input) should|should be a valid|unable to parse| b'", ended.err)
