"""``gossamer routes`` on a running cluster."""

import json
import subprocess

from real.harness import eventually, run


def test_the_routes_of_a_whole_cluster_are_verified(cluster):
    command = ["mosquitto_sub", "-p", cluster.port(1), "-i", "watcher", "-t", "plant/+/temp", "-t", "plant/#"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as subscriber:
        try:
            eventually(
                lambda: "plant/#" in run("routes", "--api", cluster.api(2)).stdout, says="the route on node 2"
            )
            outcome = run("routes", "verify", "--api", cluster.api(2), "--json")
            assert outcome.returncode == 0, outcome.stderr
            told = json.loads(outcome.stdout)
            assert told["missing"] == {}
            assert sorted(row["node"] for row in told["items"]) == [f"node{n}@127.0.0.1" for n in (1, 2, 3)]
            assert all((row["peers"], row["silent"], row["wrong"]) == (2, 0, 0) for row in told["items"])
            one = run("routes", "verify", "--api", cluster.api(1), "--node", "node3@127.0.0.1", "--check")
            assert one.returncode == 0
            assert "all right" in one.stdout
        finally:
            subscriber.terminate()
