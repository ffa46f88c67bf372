"""``gossamer up``: a cluster of N nodes on this machine, each an operating-system process, until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from gossamer.cli.command import Json, option
from gossamer.cli.render.output import json_text, make_console, ports_text, print_line
from gossamer.cli.root import example
from gossamer.launch import MAX_NODES, MQTT_TLS, WEBSOCKET, WEBSOCKET_TLS

if TYPE_CHECKING:
    from gossamer.launch import ClusterPlan, PortSpec

OPTIONS = {
    "mqtt": "--mqtt-port",
    "api": "--api-port",
    "gossip": "--gossip-port",
    "distribution": "--distribution-port",
    WEBSOCKET: "--ws-port",
    WEBSOCKET_TLS: "--ws-port",
    MQTT_TLS: "--tls-port",
}
_PORTS = "A port to count up from, 0 for free ones, or one for each node (1883,2883,…)."


@example("--nodes 3", "--tls", "-n 5 --mqtt-port 0 --api-port 0 --data-dir data")
def up(
    nodes: int = typer.Option(3, "--nodes", "-n", min=1, max=MAX_NODES, help="How many."),
    data_dir: Path = option(Path("data"), "--data-dir", "Where all data goes.", file_okay=False),
    mqtt_port: str = option("1883", "--mqtt-port", _PORTS),
    api_port: str = option("8091", "--api-port", _PORTS),
    gossip_port: str = option("7946", "--gossip-port", _PORTS),
    distribution_port: str = option("4370", "--distribution-port", _PORTS),
    ws_port: str | None = option(
        None,
        "--ws-port",
        "MQTT over WebSockets, for browsers, with --tls over TLS: a port as above, or off. "
        "Unless given: from 9001 on where those are free, else free ones.",
    ),
    shared_port: int | None = option(
        None, "--shared-port", "One more MQTT port, shared by all nodes.", min=1, max=65535
    ),
    tls: bool = option(
        False, "--tls", "Make an authority in the data directory, and use TLS on links, API and MQTT."
    ),
    tls_port: str = option("8883", "--tls-port", "MQTT over TLS, with --tls: a port as above."),
    env: str = option("gossamer", "--env", "Name of the cluster."),
    timeout: float = option(60.0, "--timeout", "Seconds to wait until ready.", min=1),
    json: Json = False,
) -> None:
    """Run a cluster on this machine until Ctrl-C.

    Prints one ready line, and writes cluster.json into the data directory.
    """
    # Here, so that options are listed without loading the code that starts processes and queries nodes.
    from gossamer.cli.local.launcher import Launcher
    from gossamer.launch import PortSpec, Workspace, check_ports, logging_to

    texts = {"mqtt": mqtt_port, "api": api_port, "gossip": gossip_port, "distribution": distribution_port}
    texts |= {MQTT_TLS: tls_port} if tls else {}
    specs = {service: PortSpec(OPTIONS[service], text) for service, text in texts.items()}
    plan = _plan(specs, ws_port, nodes=nodes, directory=data_dir.resolve(), env=env, shared_port=shared_port)
    with Workspace(plan.directory) as workspace:
        check_ports(plan, OPTIONS)
        with logging_to(plan.directory / "up.log"), Screen(as_json=json) as screen:
            code = asyncio.run(Launcher(plan, workspace, screen, timeout=timeout).run())
    raise typer.Exit(code)


def _plan(specs: dict[str, PortSpec], ws_port: str | None, **options: Any) -> ClusterPlan:
    from gossamer.launch import PortSpec, chooser, make_plan, plan_with_websockets

    choose = chooser()
    if ws_port == "off":
        return make_plan(specs=specs, choose=choose, **options)
    service = WEBSOCKET_TLS if MQTT_TLS in specs else WEBSOCKET
    option = OPTIONS[service]
    if ws_port is not None:
        specs |= {service: PortSpec(option, ws_port)}
        return make_plan(specs=specs, choose=choose, **options)
    return plan_with_websockets(
        lambda ports: make_plan(specs=specs | {service: ports}, choose=choose, **options),
        service,
        option=option,
        others_chosen=specs["mqtt"].text.strip() == "0",
    )


class Screen:
    """The ready line on standard output, what nodes lack until then on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._status = make_console(stderr=True).status("starting")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def progress(self, missing: Mapping[str, str]) -> None:
        """Display what each node that is not ready lacks."""
        self._status.update("; ".join(f"{name} {what}" for name, what in missing.items()) or "ready")

    def ready(self, facts: Mapping[str, object]) -> None:
        """Print the ready line."""
        self._status.stop()
        print_line(json_text({"ready": True, **facts}) if self._as_json else _ready_line(facts))
        if "ca_file" in facts and not self._as_json:
            print_line(_try_line(facts))


def _try_line(facts: Mapping[str, Any]) -> str:
    """Return the command that shows TLS at work."""
    port = facts["nodes"][0]["ports"][MQTT_TLS]
    command = f"mosquitto_pub --cafile {facts['ca_file']} -h 127.0.0.1 -p {port} -q 1 -t hello -m tls -d"
    return f"try {command}"


def _ready_line(facts: Mapping[str, Any]) -> str:
    nodes = facts["nodes"]
    parts = [f"{node['name']} {ports_text(node['ports'])}" for node in nodes]
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    shared = f"; shared mqtt={facts['shared_port']}" if "shared_port" in facts else ""
    return f"ready {count}: {'; '.join(parts)}{shared}"
