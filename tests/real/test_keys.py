"""Rotating the gossip keys of running nodes."""

from real.harness import Cluster, eventually, run


def test_keys_rotate_on_three_running_nodes(cluster: Cluster, tmp_path) -> None:
    """Install, use, remove, each on all nodes: every node stays online for every other."""

    def keys(*arguments: object) -> str:
        outcome = run("cluster", "keys", *arguments, "--all", "--api", cluster.api(1))
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout

    def installed(number: int) -> list[str]:
        return cluster.get(number, "/api/v1/cluster/keys")["keys"]

    secret = "a key that is long enough for a test"
    (tmp_path / "key").write_text(secret)
    (old,) = installed(1)
    shown = keys("install", tmp_path / "key")
    assert secret not in shown + cluster.err
    new = next(name for name in installed(2) if name != old)
    keys("use", new)
    keys("remove", old)
    assert [installed(number) for number in (1, 2, 3)] == [[new]] * 3
    for number in (1, 2, 3):
        eventually(
            lambda number=number: {m["status"] for m in cluster.get(number, "/api/v1/members")} == {"online"},
            says="all are online",
        )
