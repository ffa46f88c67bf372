"""A command as it is typed, for each that there is: its ``--help`` and the reference show it below the rest.

Kept in one place, so that a test finds the command that has none, and the example that no longer parses.
"""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLES", "with_examples"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "start": ("gossamer start -c node.yaml", "GOSSAMER_CLUSTER__AUTOHEAL=15s gossamer start -c node.yaml"),
    "up": ("gossamer up --nodes 3", "gossamer up -n 5 --mqtt-port 0 --api-port 0 --data-dir data"),
    "config check": ("gossamer config check node.yaml",),
    "config schema": ("gossamer config schema > node.schema.json",),
    "config show": ("gossamer config show node.yaml --changed", "gossamer config show --node node2@10.0.0.2"),
    "config reload": ("gossamer config reload --all",),
    "passwd": ("gossamer passwd users.txt ada", "gossamer passwd users.txt ada --delete"),
    "top": ("gossamer top", "gossamer top --samples 1 --json"),
    "live": ("gossamer live --watch 5",),
    "nodes list": ("gossamer nodes", "gossamer nodes --json"),
    "nodes show": ("gossamer nodes show node2@10.0.0.2 --watch",),
    "cluster status": ("gossamer cluster status --watch",),
    "cluster members": ("gossamer cluster members",),
    "cluster join": ("gossamer cluster join 10.0.0.1:7946 10.0.0.2:7946",),
    "cluster leave": ("gossamer cluster leave --drain",),
    "cluster force-leave": ("gossamer cluster force-leave node3@10.0.0.3",),
    "cluster keys list": ("gossamer cluster keys list",),
    "cluster keys install": ("openssl rand -base64 32 | gossamer cluster keys install -",),
    "cluster keys use": ("gossamer cluster keys use 5f0c2d9a",),
    "cluster keys remove": ("gossamer cluster keys remove 5f0c2d9a",),
    "events": ("gossamer events --kind down --kind up --limit 20", "gossamer events --follow --json"),
    "alarms list": ("gossamer alarms",),
    "alarms raise": ("gossamer alarms raise backup.late 'no backup for two days'",),
    "alarms clear": ("gossamer alarms clear backup.late",),
    "clients list": ("gossamer clients --limit 20", "gossamer clients --connected --json"),
    "clients show": ("gossamer clients show sensor-7",),
    "clients kick": ("gossamer clients kick sensor-7",),
    "sessions list": ("gossamer sessions --disconnected",),
    "sessions show": ("gossamer sessions show sensor-7",),
    "sessions end": ("gossamer sessions end sensor-7",),
    "subscriptions list": ("gossamer subscriptions --filter 'sensors/#'",),
    "topics list": ("gossamer topics --limit 50", "gossamer topics sensors/7/temperature"),
    "topics match": ("gossamer topics match sensors/7/temperature",),
    "routes list": ("gossamer routes --to node2@10.0.0.2",),
    "routes verify": ("gossamer routes verify --check",),
    "retained list": ("gossamer retained 'sensors/#'",),
    "retained remove": ("gossamer retained remove sensors/7/temperature",),
    "publish": (
        "gossamer publish sensors/7/temperature 21.5 --qos 1",
        "gossamer publish maps/floor-1 - --retain < floor-1.png",
    ),
    "ps": ("gossamer ps --node node2@10.0.0.2", "gossamer ps mqtt --fold 5"),
    "processes": ("gossamer processes",),
    "trace": ("gossamer trace node1@10.0.0.1.31 --seconds 30",),
    "tables list": ("gossamer tables",),
    "tables show": ("gossamer tables show routes",),
    "log-level show": ("gossamer log-level",),
    "log-level set": ("gossamer log-level set debug --node node2@10.0.0.2",),
    "backup": ("gossamer backup", "gossamer backup --node node2@10.0.0.2 --to /mnt/backups/node2.db"),
    "drill partition": (
        "gossamer drill partition --nodes 5 --split 3/2 --for 30s --html report.html",
        "gossamer drill partition --split 1-2 --set cluster.autoheal=5s --json record.json",
    ),
    "drill flapping": ("gossamer drill flapping --split 2/1 -n 3 --period 2s",),
    "drill slow": ("gossamer drill slow --delay 300ms --loss 5%",),
    "drill kill": ("gossamer drill kill --node 2",),
    "drill pause": ("gossamer drill pause --node 2 --for 10s",),
    "drill rolling": ("gossamer drill rolling --nodes 3",),
    "drill clock": ("gossamer drill clock --jump -10m",),
    "drill coordinator": ("gossamer drill coordinator --split 3/2",),
    "drill disk": ("gossamer drill disk --node 1",),
    "drill suite": ("gossamer drill suite --quick --html suite.html",),
    "drill list": ("gossamer drill list",),
    "drill start": (
        "gossamer drill start partition --here --split 2/1 --for 15s --wait",
        "gossamer drill start kill --nodes 3 --node node2@10.0.0.2",
    ),
    "drill show": ("gossamer drill show 20260131T070000-1c0ffe --watch",),
    "drill follow": ("gossamer drill follow 20260131T070000-1c0ffe",),
    "drill stop": ("gossamer drill stop 20260131T070000-1c0ffe",),
    "drill report": ("gossamer drill report 20260131T070000-1c0ffe report.html",),
    "autoheal status": ("gossamer autoheal status",),
    "autoheal set": ("gossamer autoheal set --autoheal 15s --autoclean 5m",),
    "autoheal history": ("gossamer autoheal history",),
    "autoheal plan": ("gossamer autoheal plan --dry-run",),
    "autoheal quarantine list": ("gossamer autoheal quarantine",),
    "autoheal quarantine replay": ("gossamer autoheal quarantine replay 1f0c-3",),
    "audit status": ("gossamer audit status --watch",),
    "audit set": ("gossamer audit set --on --sample 0.1 --keep-for 7d",),
    "audit run": ("gossamer audit run report --dir data/audit",),
    "audit stream": ("gossamer audit stream --dir data/audit",),
    "audit list": ("gossamer audit list",),
    "audit start": ("gossamer audit start completeness --from 6h --fail-on lost --wait",),
    "audit show": ("gossamer audit show 20260131T070000-1c0ffe",),
    "audit follow": ("gossamer audit follow 20260131T070000-1c0ffe",),
    "audit stop": ("gossamer audit stop 20260131T070000-1c0ffe",),
    "audit report": ("gossamer audit report 20260131T070000-1c0ffe audit.html",),
    "tokens list": ("gossamer tokens list",),
    "tokens create": ("export GOSSAMER_TOKEN=$(gossamer tokens create ci --role operator --expires 30d)",),
    "tokens revoke": ("gossamer tokens revoke 0123456789ab",),
    "completion": ("gossamer completion --install", "gossamer completion bash > gossamer.bash"),
    "support-bundle": ("gossamer support-bundle", "gossamer support-bundle --log /var/log/gossamer.log"),
}


def with_examples(command: Any, typed: str) -> Any:
    """``command``, and those below it, with the examples of what is ``typed`` to have them."""
    for name, below in getattr(command, "commands", {}).items():
        with_examples(below, f"{typed} {name}")
    if found := EXAMPLES.get(typed):
        # Brackets would be taken for markup; a line of its own each.
        lines = [line.replace("[", r"\[") for line in found]
        command.epilog = "\n".join(["[bold]Example[/]" if len(lines) == 1 else "[bold]Examples[/]", *lines])
    return command
