"""How pages are read and compared: what counts as the same, what is run, and which words are commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from docs.blocks import Typed, blocks_of, cluster_of, inline_commands, typed_in
from docs.checks import command_fault, faults_of
from docs.likeness import is_like
from docs.player import play_apart
from docs.terminal import Shell

PAGE = Path("page.md")

WRITTEN = """\
# A page

<!-- cluster: 3 -->

`node.yaml`:

```yaml
cluster: {port: 7946}
```

<!-- not run: needs a second machine -->
```console
$ gossamer nodes
```

1. Then

    ```console
    $ echo a \\
    > b
    a b
    $ cat
    ^C
    ```

<!-- output -->
```text
a
```
"""


def test_blocks_know_what_stands_before_them():
    file, not_run, nested, output = blocks_of(WRITTEN, PAGE)
    assert (file.file, file.runs, file.where) == ("node.yaml", False, "page.md:7")
    assert (not_run.not_run, not_run.runs) == ("needs a second machine", False)
    assert nested.runs
    assert typed_in(nested) == [Typed("echo a \\\nb", "a b\n", 19), Typed("cat", "", 22), Typed("^C", "", 23)]
    assert output.output
    assert not output.runs


def test_a_block_that_is_not_closed_is_named():
    with pytest.raises(ValueError, match=r"page.md:3: this block is not closed"):
        blocks_of("a\n\n```sh\nls\n", PAGE)


@pytest.mark.parametrize(
    ("directive", "options"),
    [("3", "--nodes 3"), ("1 node", "--nodes 1"), ("--nodes 2 --ws-port 8083", "--nodes 2 --ws-port 8083")],
)
def test_a_page_may_have_a_cluster(directive, options):
    assert cluster_of(f"# A page\n\n<!-- cluster: {directive} -->\n") == options
    assert cluster_of("# A page") is None


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("up 12s, pid 4711\n", "up 3m, pid 12"),
        ("healed after 8.5s  here", "healed after 1m 2s here"),
        ('{"b":[{"port":2},{"port":1}],"a":1}', '{"a":1,"b":[{"port":1},{"port":2}]}'),
        ("NAME     STATUS\nnode1    online", "NAME STATUS\nnode1 online"),
        ("one\ntwo\nthree\nfour\n", "one\n…\nfour\n"),
        ("one\nfour\n", "one\n⋮\nfour\n"),
        ("took 0.123 s for it", "took … s for it"),
        ("\x1b[32mgreen\x1b[0m", "green"),
        ('{"b":[1,2],"a":1}', '{"b":[1,…}'),
        ("", ""),
    ],
)
def test_what_nobody_can_promise_is_alike(got, expected):
    assert is_like(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("mqtt=1884", "mqtt=1883"),
        ("3 nodes", "2 nodes"),
        ("one\ntwo\nthree\n", "one\n…\nfour\n"),
        ("error: no\nready\n", "ready"),
        ("ready", ""),
        ("", "ready"),
        ("took 1.5 s and failed", "took … s"),
        ("node1 online", "node1 offline"),
    ],
)
def test_everything_else_is_not(got, expected):
    assert not is_like(got, expected)


@pytest.mark.parametrize(
    "line",
    [
        "gossamer clients kick meter7",
        "gossamer topics a/b --json | head -3",
        "gossamer alarms --api 127.0.0.1:8092",
        "docker compose exec node1 gossamer cluster status",
        "kill $(gossamer nodes --json)",
        "cp -a /var/lib/gossamer /backup",
        "useradd --system gossamer",
        "pip install '.[audit]'",
        "/opt/gossamer/bin/pip install dist/gossamer-*.whl",
        "gossamer cluster leave [--drain]",
        "GOSSAMER_LOG__LEVEL=debug gossamer start -c node.yaml",
    ],
)
def test_a_command_that_is_there_has_no_fault(line):
    assert command_fault(line) == ""


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("pip install gossamer", "no package index has gossamer"),
        ("/opt/gossamer/bin/pip install -U 'gossamer[dns]==0.2.0'", "no package index has gossamer"),
        ("python -m pip install gossamer[audit]", "no package index has gossamer"),
        ("gossamer clusters status", "no command 'clusters'"),
        ("gossamer clients kik meter7", "no command 'kik'"),
        ("gossamer up --node 3", "no option --node"),
        ("docker compose exec node1 gossamer cluster status --jsn", "no option --jsn"),
        ("gossamer alarms --aip 127.0.0.1:8092", "no option --aip"),
    ],
)
def test_a_command_that_is_not_there_is_named(line, fault):
    assert command_fault(line) == fault


def test_prose_is_searched_for_commands_and_blocks_are_not():
    assert inline_commands("Ask `gossamer\nnodes`.\n\n```sh\nls `gossamer x`\n```\n") == ["gossamer nodes"]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```\nls\n```", "no language"),
        ("```yaml\ncluster: {prot: 1}\n```", "cluster.prot"),
        ("```yaml\napiVersion: v1\nkind: Service\n```", "metadata"),
        ("```python\nif:\n```", "invalid syntax"),
        ("<!-- not run: no such machine -->\n```console\n$ gossamer clusters\n```", "'clusters'"),
        (
            "[`deploy/entrypoint.sh`](deploy/entrypoint.sh):\n\n```sh\nls\n```",
            "not what deploy/entrypoint.sh",
        ),
        ("Ask `gossamer nodez`.", "`gossamer nodez`: no command"),
    ],
)
def test_faults_name_page_and_reason(block, fault):
    (found,) = faults_of(f"# A page\n\n{block}\n", PAGE)
    assert found.startswith("page.md")
    assert fault in found


def test_one_page_may_be_right():
    assert faults_of(WRITTEN, PAGE) == []


@pytest.mark.real
def test_a_page_is_played_from_top_to_bottom(tmp_path):
    """Files are written, the shell keeps its variables and directory, Python its names."""
    page = tmp_path / "page.md"
    page.write_text(
        "`a/b.txt`:\n\n```text\nhello\n```\n\n"
        "```console\n$ export WHO=you && cd a\n$ echo $WHO; cat b.txt; false\nyou\nhello\n"
        "$ echo $?\n1\n```\n\n"
        "```sh\ntest $WHO = you\n```\n\n"
        "```python\nimport asyncio\nx = await asyncio.sleep(0, 2)\n```\n\n"
        "```python\nprint(x + 1, open('a/b.txt').read(), end='')\n```\n\n"
        "<!-- output -->\n```text\n3 hello\n```\n\n"
        "<!-- later -->\n```console\n$ echo >> n; wc -l < n\n3\n```\n"
    )
    assert play_apart(page, tmp_path) == ""


@pytest.mark.real
@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("```console\n$ echo a\nb\n```", "page.md:6: $ echo a\nexpected:\n  | b\ngot:\n  | a\n"),
        ("```sh\ntrue\nexit 3\n```", "page.md:5: $ true\nexit 3\nexit code 3"),
        ("```python\n1 / 0\n```", f"page.md{chr(34)}, line 6"),
        ("```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```", "page.md:10"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, block, says):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n<!-- nothing -->\n\n{block}\n")
    assert says in play_apart(page, tmp_path)


def test_a_program_that_hangs_is_ended_with_what_it_started_and_so_are_those_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr("docs.terminal.PATIENCE", 1.0)
    shell = Shell(tmp_path, tmp_path)
    for command in ("sleep 321 &", """bash -c "trap '' INT; echo on; sleep 322 & sleep 323" &"""):
        shell.type(Typed(command, "on\n" if "echo" in command else "", 1), PAGE)
    with pytest.raises(subprocess.TimeoutExpired):
        shell.close()
    left = subprocess.run(["pgrep", "-f", "^sleep 32[123]"], capture_output=True, text=True, check=False)
    assert left.stdout == ""
