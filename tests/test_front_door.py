"""A package's front door is small and true: ``__all__`` names what others may use, and they use that."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gossamer"
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
# Modules that are a door of their own: vocabularies of plain values, too many for one, and the client, which
# is no part of the broker.
BY_MODULE = {
    "gossamer.api.model.base",
    "gossamer.api.model.cluster",
    "gossamer.api.model.forms",
    "gossamer.api.model.node",
    "gossamer.api.model.queues",
    "gossamer.api.model.raft",
    "gossamer.audit.schema",
    "gossamer.config.discovery",
    "gossamer.drill.record",
    "gossamer.mqtt.client",
    "gossamer.mqtt.codec.packets",
    "gossamer.supervisor.process.signals",
    "gossamer.supervisor.thespian.messages",
}


def door(package):
    """The names in ``__all__``, read and not imported, so that optional dependencies stay optional."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return ast.literal_eval(node.value)
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_its_front_door(package):
    names = door(package)
    assert names, f"gossamer/{package}/__init__.py has no __all__"
    assert len(names) == len(set(names)), "a name stands there twice"
    assert not [name for name in names if name.startswith("_")], "a private name in the front door"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_front_door_exists(package):
    try:
        module = importlib.import_module(f"gossamer.{package}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gossamer"):
            raise
        pytest.skip(f"needs {error.name}, which is an extra")
    assert [name for name in door(package) if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_used_through_its_front_door(package):
    """Nobody in the house imports a module behind another package's door."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(ROOT / package):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                if node.module == f"gossamer.{package}":
                    unknown = [alias.name for alias in node.names if alias.name not in (door(package) or ())]
                    found += [f"{path}:{node.lineno} takes {name}, not in __all__" for name in unknown]
                elif node.module.startswith(f"gossamer.{package}.") and node.module not in BY_MODULE:
                    found.append(f"{path}:{node.lineno} goes behind the door to {node.module}")
    assert not found, "\n".join(found)


def test_only_doors_have_a_list_of_their_names():
    """Inside a package an underscore says what is a module's own; a second list says it again."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.with_suffix("").relative_to(ROOT.parent).parts)
        if path.name != "__init__.py" and module not in BY_MODULE and "\n__all__ =" in path.read_text():
            found.append(f"{path}: __all__ belongs into the package's front door")
    assert not found, "\n".join(found)
