"""Rotating the gossip keys of running nodes."""

import os
import signal
import stat

import pytest

from gossamer.cli import main
from real.harness import Cluster, eventually


def test_keys_rotate_on_three_running_nodes_while_one_of_them_dies(
    cluster: Cluster, tmp_path, monkeypatch, capsys
) -> None:
    """Install, use, remove, each on all nodes; in the middle node 2 is killed, and comes back with all."""

    def keys(*arguments: object, everywhere: bool = True) -> tuple[int, str, str]:
        # In this process: what is real here are the nodes, and a process for each command would cost most.
        which = ["--all"] if everywhere else []
        words = ["gossamer", "cluster", "keys", *map(str, arguments), *which, "--api", cluster.api(1)]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def done(*arguments: object, everywhere: bool = True) -> str:
        code, out, err = keys(*arguments, everywhere=everywhere)
        assert code == 0, err
        return out

    def installed(number: int) -> list[str]:
        return cluster.get(number, "/api/v1/cluster/keys")["keys"]

    def all_online() -> bool:
        members = [cluster.get(number, "/api/v1/members") for number in (1, 2, 3)]
        # The port of its API is told once it serves, a moment after the node itself.
        serving = [
            row for rows in members for row in rows if row["status"] == "online" and "api" in row["ports"]
        ]
        return len(serving) == 9

    secret = "a key that is long enough for a test"
    (tmp_path / "key").write_text(secret)
    (old,) = installed(1)
    shown = done("install", tmp_path / "key", everywhere=False)
    new = next(name for name in installed(1) if name != old)
    code, _, err = keys("use", new)
    assert code != 0
    assert f"has no key {new}" in err
    assert [installed(number)[0] for number in (1, 2, 3)] == [old] * 3

    shown += done("install", tmp_path / "key")
    done("use", new, everywhere=False)
    code, _, err = keys("remove", old)
    assert code != 0
    assert f"still uses {old}" in err

    os.kill(cluster.nodes[1]["pid"], signal.SIGKILL)
    eventually(lambda: "ready again" in cluster.err, says="node 2 runs again")
    cluster.facts = cluster.facts_file()
    assert installed(2) == [old, new]
    eventually(all_online, says="node 2 is back among those that use the new key")

    shown += done("use", new) + done("remove", old) + done("list")
    assert [installed(number) for number in (1, 2, 3)] == [[new]] * 3
    eventually(all_online, says="all are online")
    assert secret not in shown + cluster.err
    kept = list(cluster.data_dir.rglob("gossip.keys"))
    assert len(kept) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept} == {0o600}
