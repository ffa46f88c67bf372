"""The shape of the house: rooms, modules and functions that can be taken in at once, and no circles."""

import ast
from collections import defaultdict

from test_floors import ROOT, modules, name_of

MODULES_OF_A_ROOM = 16
LINES_OF_A_MODULE = 400
LINES_OF_A_FUNCTION = 60
MODULES_OF_A_CIRCLE = 2
LONG = {"gossamer.mqtt.connection.publish_reader.take"}
"""The hot loop of a node, which says why."""


def test_no_room_has_more_modules_than_can_be_taken_in():
    rooms = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        rooms[path.parent].append(path.name)
    assert not {room: len(files) for room, files in rooms.items() if len(files) > MODULES_OF_A_ROOM}


def test_no_module_is_longer_than_can_be_read_at_once():
    lines = {path: path.read_text().count("\n") for path in modules()}
    assert not {path: count for path, count in lines.items() if count > LINES_OF_A_MODULE}


def test_no_function_is_longer_than_a_page():
    found = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = node.end_lineno - node.lineno + 1
                if count > LINES_OF_A_FUNCTION:
                    found[f"{name_of(path)}.{node.name}"] = count
    assert found.keys() == LONG, found


def test_modules_of_a_package_import_one_another_in_pairs_at_most():
    """For types too: a larger circle is one module in several files."""
    names = {name_of(path): path for path in modules()}
    graph = {name: set(imported(path, names)) for name, path in names.items()}
    reached = {name: reachable(name, graph) for name in graph}
    circles = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    assert not [sorted(circle) for circle in circles if len(circle) > MODULES_OF_A_CIRCLE]


def imported(path, names):
    """The modules of its own package that a module imports; doors are no modules."""
    package = ".".join(name_of(path).split(".")[:2])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                for name in (f"{node.module}.{alias.name}", node.module):
                    found = names.get(name)
                    if found and found.name != "__init__.py" and name.startswith(f"{package}."):
                        yield name
                        break


def reachable(name, graph):
    seen, due = set(), [name]
    while due:
        for other in graph[due.pop()] - seen:
            seen.add(other)
            due.append(other)
    return seen
