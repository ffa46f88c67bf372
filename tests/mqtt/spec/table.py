"""Write docs/reference/mqtt-statements.md: ``python tests/mqtt/spec/table.py``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from mqtt.spec.statements import NAMES, citations, statements
else:
    from .statements import NAMES, citations, statements

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "mqtt-statements.md"

HEAD = """# Every statement of MQTT, and the test that keeps it

Made by `python tests/mqtt/spec/table.py`; a test fails if it is not what that makes, if a statement has no
test, or if a test cites one that does not exist. Numbers are those of Appendix B of
[MQTT 3.1.1](https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html) and
[MQTT 5.0](https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html), where the binding words are; here is
what they come to. Where a statement binds only the client, the third column says what the broker does with
one that breaks it. The tests are in `tests/mqtt/spec`; they speak bytes to a whole broker, whose clock they
move.
"""


def render():
    tests = citations()
    out = [HEAD]
    for version, name in NAMES.items():
        table = statements(version)
        bound = sum(statement.binds == "client" for statement in table.values())
        out.append(f"\n## MQTT {name}\n\n{len(table)} statements, {bound} of which bind only the client.\n")
        out.append("| statement | says | a client that breaks it | tests |")
        out.append("|---|---|---|---|")
        for number, statement in table.items():
            cited = " ".join(f"`{test}`" for test in tests.get((version, number), ()))
            out.append(f"| MQTT-{number} | {statement.says} | {statement.broken} | {cited} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    DOCS.parent.mkdir(exist_ok=True)
    DOCS.write_text(render(), encoding="utf-8")
    print(f"{DOCS} written")
