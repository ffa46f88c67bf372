"""One self-contained page of what the jobs found: a verdict in words, numbers, charts, and what is missing.

Charts are drawn by matplotlib as SVG inside the page, the page is made by jinja2: nothing is loaded from
anywhere, so that it can be mailed and kept.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gossamer.spark.jobs import JOBS, Chart
from gossamer.spark.run import Outcome

__all__ = ["render", "verdict_in_words"]

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>gossamer audit</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #1c2329; --dim: #5b6770; --ground: #fff; --line: #d9dfe3;
        --good: #14743f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaed; --dim: #9aa7b0; --ground: #14181b; --line: #333c43;
          --good: #62c78d; --bad: #ff8a80; }
  svg { filter: invert(0.88) hue-rotate(180deg); }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; border-top: 1px solid var(--line);
     padding-top: 1rem; }
.verdict { font-size: 1.2rem; font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }
.dim { color: var(--dim); } svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.85rem; }
td, th { padding: 0.2rem 0.7rem; text-align: left; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
</style></head><body>
<h1>Audit of {{ begin }} to {{ end }}</h1>
<p class="verdict {{ 'bad' if broken else 'good' }}">{{ words }}</p>
<p class="dim">{{ files }} files of {{ nodes | length }} nodes: {{ nodes | join(', ') }}.</p>
{% for name, told, charts in jobs %}
<h2 id="{{ name }}">{{ name }}</h2>
<p class="dim">{{ questions[name] }}</p>
{% for sentence in told.sentences %}<p>{{ sentence }}</p>{% endfor %}
{% for chart in charts %}<figure>{{ chart }}</figure>{% endfor %}
{% if told.rows %}<div class="wide"><table>
<tr>{% for key in told.rows[0] %}<th>{{ key }}</th>{% endfor %}</tr>
{% for row in told.rows %}<tr>{% for value in row.values() %}
<td{{ ' class=n' | safe if value is number and value is not boolean }}>{{ shown(value) }}</td>
{% endfor %}</tr>{% endfor %}
</table></div>{% endif %}
{% endfor %}
<h2 id="missing">What could not be judged</h2>
{% if not (problems or holes) %}<p>Nothing: the recording is whole.</p>{% endif %}
{% for problem in problems %}
<p><b>{{ problem.kind }}</b> {{ problem.path }}: {{ problem.message }}</p>{% endfor %}
{% for hole in holes %}<p><b>hole</b> {{ hole.node }} from {{ moment(hole.begin) }} to {{ moment(hole.end) }}:
{{ hole.why }}</p>{% endfor %}
</body></html>
"""


def verdict_in_words(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """One sentence for somebody who reads nothing else."""
    blind = sum(told.numbers.get("undecidable", 0) for told in outcome.told.values())
    doubt = f"; {blind:,} deliveries could not be judged" if blind else ""
    if broken:
        what = ", ".join(f"{number:,} {name}" for name, number in broken.items())
        return f"Promises were broken: {what}{doubt}."
    if "completeness" in outcome.told:
        owed = outcome.told["completeness"].numbers["owed"]
        lost = outcome.told["completeness"].numbers["lost"]
        if not lost:
            return f"Nothing was lost of {owed:,} deliveries that were owed{doubt}."
    return f"No promise that was asked for was broken{doubt}."


def render(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """The page."""
    import jinja2
    from markupsafe import Markup

    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_PAGE)
    return page.render(
        begin=f"{outcome.begin:%Y-%m-%d %H:%M:%S}",
        end=f"{outcome.end:%Y-%m-%d %H:%M:%S} UTC",
        words=verdict_in_words(outcome, broken),
        broken=broken,
        files=outcome.files,
        nodes=outcome.nodes,
        problems=outcome.problems[:200],
        holes=outcome.holes[:200],
        questions={name: job.question for name, job in JOBS.items()},
        # Ours, and not text of somebody's topics: matplotlib escapes what it is given.
        jobs=[
            (name, told, [Markup(draw(chart)) for chart in told.charts if chart.labels])  # noqa: S704
            for name, told in outcome.told.items()
        ],
        moment=lambda micros: f"{datetime.fromtimestamp(micros / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S}",
        shown=_shown,
    )


def draw(chart: Chart) -> str:
    """The chart as an ``<svg>`` element."""
    from matplotlib.figure import Figure

    count = len(chart.labels)
    figure = Figure(figsize=(8, 3.2 if chart.kind == "lines" else 0.6 + 0.32 * count), layout="constrained")
    axes = figure.subplots()
    if chart.kind == "bars":
        (values,) = chart.series.values()
        places = range(count)
        axes.barh(places, values, color="#2a6f97")
        # Topics may hold what mathtext would take for formulas.
        axes.set_yticks(places, [_plain(label) for label in chart.labels])
        axes.invert_yaxis()
        axes.set_xlabel(chart.unit)
        for place, value in zip(places, values, strict=True):
            axes.annotate(f" {value:,.0f}", (value, place), va="center", fontsize=8)
        axes.margins(x=0.15)
    else:
        for (name, values), color in zip(
            chart.series.items(), ("#2a6f97", "#bc4749", "#6a994e"), strict=False
        ):
            axes.plot(range(count), values, label=name, color=color, marker="o" if count < 40 else None)
        step = max(1, count // 12)
        axes.set_xticks(range(0, count, step), chart.labels[::step])
        axes.set_ylabel(chart.unit)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    axes.set_title(chart.title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _plain(label: str) -> str:
    short = label if len(label) <= 40 else label[:39] + "…"
    return short.replace("$", r"\$")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if value < 1 else f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
