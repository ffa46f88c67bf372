"""The house has floors: a package imports only from floors below its own, whatever way it imports."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gossamer"
GROUND = ("errors", "lazy", "clock", "histogram", "pages", "network", "faults", "config", "options")
GROUND += ("certificates", "features", "files", "handshakes", "log_destination", "log_limit", "places")
GROUND += ("tenants",)
FLOORS = (
    "supervisor",
    "gossip",
    "distribution",
    "raft",
    "basekv",
    "queues",
    "discovery",
    "mnesia_like",
    "routes",
    "autoheal",
    "mqtt",
    "audit",
    # Spans of what the recorder notes, in an order of its own: knows the buffer, and nothing below knows it.
    "tracing",
    "api",
    "gateway",
    "client",
    "node",
    # Plans, starts and awaits the processes of nodes, for the command and for drills.
    "launch",
    # Breaks a cluster of real processes on purpose: uses what starts nodes, is used by the command.
    "drill",
    "cli",
    "testing",
)
# From the ground up, as floors are; modules without a room stand for themselves.
ROOMS_OF_MQTT = (
    "codec",
    "client",
    "flow",
    "messages",
    "session",
    "publish",
    "auth",
    "tenants",
    "copies",
    "handoff",
    "migration",
    "connection",
    "broker",
    "systopics",
    "tree",
    "cluster",
)
# Stands beside the house: jobs in processes of their own, which know the broker by what it writes.
SPARK_MAY_IMPORT = ("gossamer.audit.schema", "gossamer.errors", "gossamer.pages", "gossamer.options")


def modules():
    """Every module below the front door of the house itself."""
    return sorted(
        path for path in ROOT.rglob("*.py") if path not in (ROOT / "__init__.py", ROOT / "__main__.py")
    )


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """The modules of gossamer that a file imports, in functions and for types too."""
    package = path.relative_to(ROOT.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*start, *([node.module] if node.module else [])))
            # "from gossamer import x" may name a module; anything deeper is decided by its package.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "gossamer" else [base]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] == "gossamer")


def floor(module):
    """Its number from the ground, or None for what is on no floor (the front door, spark)."""
    part = module.split(".")[1]
    if part in GROUND or part == "__version__":
        return 0
    return FLOORS.index(part) + 1 if part in FLOORS else None


def violation(importer, imported):
    """Why this import is not allowed, or None."""
    if imported.split(".")[:2] == importer.split(".")[:2]:
        return None
    if importer.split(".")[1] == "spark":
        return None if imported in SPARK_MAY_IMPORT else f"spark may import {SPARK_MAY_IMPORT} only"
    here, there = floor(importer), floor(imported)
    if here is None:
        return f"{importer} stands on no floor: add its package to the list"
    if there is None:
        return f"{imported} stands on no floor; nothing in the house may import it"
    if there > here or (there == here and here > 0):
        return f"floor {here} may not import floor {there}"
    return None


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_from_floors_below(path):
    importer = name_of(path)
    found = [
        f"{path}:{line} imports {imported}: {why}"
        for imported, line in imports_of(path)
        if (why := violation(importer, imported))
    ]
    assert not found, "\n".join(found)


def modules_of_mqtt():
    """Each module of mqtt but its door, with what it imports of mqtt."""
    for path in modules():
        name = name_of(path)
        if name.startswith("gossamer.mqtt."):
            yield name, {name for name, _ in imports_of(path) if name.startswith("gossamer.mqtt.")}


def test_a_room_of_mqtt_imports_only_from_rooms_below():
    """For types too: who needs what stands above is given a function, or a protocol of its own."""

    def room(module):
        return ROOMS_OF_MQTT.index(module.split(".")[2])

    found = [
        f"{name} imports {imported}"
        for name, imports in modules_of_mqtt()
        for imported in imports
        if room(imported) > room(name)
    ]
    assert not found, "\n".join(found)


def test_modules_of_mqtt_do_not_import_in_circles():
    TopologicalSorter(dict(modules_of_mqtt())).prepare()


def test_the_rule_itself():
    """It sees what it should, so that a silent pass means something."""
    assert violation("gossamer.gossip.core", "gossamer.supervisor") is None
    assert violation("gossamer.gossip.core", "gossamer.gossip.wire") is None
    assert violation("gossamer.gossip.core", "gossamer.clock") is None
    assert violation("gossamer.config.schema", "gossamer.errors") is None
    assert violation("gossamer.supervisor.process.process", "gossamer.gossip")
    assert violation("gossamer.clock", "gossamer.supervisor")
    assert violation("gossamer.routes", "gossamer.node")
    assert violation("gossamer.spark.jobs", "gossamer.audit")
    assert violation("gossamer.spark.jobs", "gossamer.audit.schema") is None
    assert violation("gossamer.other", "gossamer.errors")
