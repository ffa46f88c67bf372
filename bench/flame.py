"""Where a broker spends its time under one row of ``brokers.py``, as a flame graph.

    python bench/flame.py pair0 docs/flame-pair0.svg
    python bench/flame.py cross1 docs/flame-cross1.svg --node 1 --transport tcp

Needs py-spy (``pip install py-spy``; it must be allowed to look into another process). Samples are of Python
and native frames together; what the kernel does counts for the call that asked for it. Only the event loop's
thread is shown, from the loop on and without its waiting; what is narrower than ``--least`` percent is left
out, so that a picture stays small.
"""

import argparse
import html
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import load
from brokers import measure
from brokers_peers import gossamer
from brokers_rows import ROWS

WIDTH, LINE, TOP = 1200, 17, 46
LOOP = "run_forever"
WAITING = ("epoll_pwait", "epoll_wait")
# Where the compiler put the end of an object's life into its caller; says nothing.
INLINED = ("Py_DECREF", "Py_XDECREF", "uv__queue_empty", "loop_run_in_context1")
COLOURS = {"gossamer": "#f4a259", "uvloop": "#8cb369", "native": "#a8b8c8", "python": "#e9d985"}


class Frame:
    """A function under the functions that called it."""

    def __init__(self) -> None:
        self.samples = 0
        self.below: dict[str, Frame] = {}


def sample(pid: int, seconds: int, rate: int) -> Counter[tuple[str, ...]]:
    """Stacks of a process and how often each was seen."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "stacks"
        command = ["py-spy", "record", "--native", "--rate", str(rate), "--duration", str(seconds)]
        done = subprocess.run(
            [*command, "--format", "raw", "--output", str(path), "--pid", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or "py-spy failed")
        stacks: Counter[tuple[str, ...]] = Counter()
        for line in path.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            stacks[tuple(map(named, stack.split(";")))] += int(count)
        return stacks


def named(frame: str) -> str:
    """A frame without its line, and without the address where there is no name."""
    name = re.sub(r":\d+\)$", ")", frame)
    name = re.sub(r"^0x[0-9a-f]+ \((.*)\)$", r"\1", name)
    return name.replace("gossamer/", "")


def tree(stacks: Counter[tuple[str, ...]]) -> Frame:
    """The stacks of the loop's thread as one tree, from the loop on."""
    root = Frame()
    for stack, count in stacks.items():
        at = next((i for i, name in enumerate(stack) if name.startswith(LOOP)), None)
        if at is None or stack[-1].startswith(WAITING):
            continue
        frame = root
        frame.samples += count
        previous = ""
        for name in stack[at + 1 :]:
            if name == previous or name.startswith(INLINED):
                continue
            previous = name
            frame = frame.below.setdefault(name, Frame())
            frame.samples += count
    return root


def colour(name: str) -> str:
    if re.search(r"\((mqtt|routes|distribution|supervisor|mnesia_like|network|node|gossip)[/.]", name):
        return COLOURS["gossamer"]
    if "loop.c" in name or "uv_" in name or "core.c" in name or "stream.c" in name:
        return COLOURS["uvloop"]
    return COLOURS["python"] if ".py)" in name else COLOURS["native"]


def draw(root: Frame, title: str, least: float) -> str:
    """The tree as SVG, callers below what they call."""
    boxes: list[tuple[float, int, float, str, int]] = []
    deepest = 0

    def place(frame: Frame, x: float, depth: int) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        for name, below in sorted(frame.below.items()):
            if below.samples * 100 >= least * root.samples:
                width = WIDTH * below.samples / root.samples
                boxes.append((x, depth, width, name, below.samples))
                place(below, x, depth + 1)
                x += width

    place(root, 0, 0)
    height = TOP + LINE * deepest + 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f"<title>{html.escape(title)}</title>",
        "<desc>A flame graph: a box for each function, as wide as its share, above its caller.</desc>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="20" font-size="15">{html.escape(title)}</text>',
    ]
    for number, (what, fill) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{8 + 90 * number}" y="28" width="11" height="11" fill="{fill}"/>')
        out.append(f'<text x="{23 + 90 * number}" y="38" font-size="11">{what}</text>')
    for x, depth, width, name, samples in boxes:
        y = height - 4 - LINE * (depth + 1)
        share = 100 * samples / root.samples
        said = html.escape(f"{name}, {share:.1f} %")
        out.append(
            f'<g><title>{said}</title><rect x="{x:.1f}" y="{y}" width="{max(0.4, width - 0.5):.1f}"'
            f' height="{LINE - 1}" fill="{colour(name)}"/>'
        )
        room = int(width / 6.2)
        if room > 3:
            short = name if len(name) <= room else name.split(" (")[0][: room - 1] + "…"
            out.append(f'<text x="{x + 3:.1f}" y="{y + 12}" font-size="11">{html.escape(short)}</text>')
        out.append("</g>")
    out.append("</svg>")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("output", type=Path)
    parser.add_argument("--node", type=int, default=0, help="of two: 0 is published to, 1 delivers")
    parser.add_argument("--transport", default="grpc", choices=("grpc", "tcp"))
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--sampling", type=int, default=250, help="samples a second")
    parser.add_argument("--least", type=float, default=0.3)
    options = parser.parse_args()
    options.payload, options.load_core = 100, 1
    row = ROWS[options.row]
    load.build("load")
    load.build("hold")
    running = gossamer(0, row.nodes, options.transport)
    try:
        with ThreadPoolExecutor(1) as threads:
            loaded = threads.submit(measure, row, running, options)
            time.sleep(1)
            stacks = sample(running.processes[options.node].pid, options.seconds - 2, options.sampling)
            loaded.result()
    finally:
        running.stop()
    root = tree(stacks)
    if not root.samples:
        sys.exit("no sample of the event loop; is it busy, and may py-spy look into it?")
    where = f", node {options.node + 1} of 2 over {options.transport}" if row.nodes > 1 else ""
    options.output.write_text(
        draw(root, f"gossamer, {row.title}{where}: {root.samples} samples", options.least)
    )
    print(f"{options.output}: {options.output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
