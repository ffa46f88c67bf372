"""The code in the guide runs as it stands, block after block."""

import re
from pathlib import Path
from types import SimpleNamespace

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "actors.md"


def test_the_blocks_of_the_actors_guide_run():
    text = GUIDE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {"__name__": "guide"}
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), names)

    node = SimpleNamespace(functions={})
    (spec,) = names["application"](node)
    assert spec.id == "account"
    assert node.functions["audit"]() == "all good"


def test_what_needs_a_cluster_compiles():
    for block in re.findall(r"^```python norun\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        compile(block, str(GUIDE), "exec")
