"""One self-contained page of what the jobs found: a verdict in words, numbers, charts, and what is missing.

The page is made by jinja2, its charts by ``charts``: nothing is loaded from anywhere, so that it can be
mailed and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gossamer.spark.jobs import JOBS, Sheet
from gossamer.spark.report.charts import Chart, draw
from gossamer.spark.report.units import heading, shown
from gossamer.spark.run import Outcome

__all__ = ["missing_in_words", "render", "verdict_in_words"]

_SHOWN = 200
"""Files and holes that are listed; the summary has all."""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>gossamer audit: {{ begin }} to {{ end }}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #1c2329; --dim: #5b6770; --ground: #fff; --card: #f4f6f8;
        --line: #d9dfe3; --good: #14743f; --bad: #b3261e; --doubt: #8a5a00;
        --series-1: #2a6f97; --series-2: #bc4749; --series-3: #6a994e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaed; --dim: #9aa7b0; --ground: #14181b; --card: #1d2327; --line: #39434a;
          --good: #62c78d; --bad: #ff8a80; --doubt: #f0b95b;
          --series-1: #6db3dc; --series-2: #f08a8c; --series-3: #a3cf86; }
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 3rem 0 0; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 0.95rem; margin: 1.6rem 0 0; }
p { margin: 0.4rem 0; }
.missing { border-left: 4px solid; padding-left: 0.8rem; margin: 1rem 0; font-weight: 600; }
.verdict { font-size: 1.25rem; font-weight: 600; border-left: 4px solid; padding-left: 0.8rem;
           margin: 1rem 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .doubt { color: var(--doubt); }
.dim { color: var(--dim); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.2rem, 1fr)); gap: 0.6rem;
         margin: 1.2rem 0; }
.card { background: var(--card); border-radius: 6px; padding: 0.6rem 0.8rem; }
.card b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--dim); font-size: 0.85rem; }
nav { margin: 1rem 0; } nav a { margin-right: 1rem; } a { color: var(--series-1); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 0.5rem 1.5rem; }
figure { margin: 0.8rem 0; } figcaption { font-weight: 600; font-size: 0.9rem; }
svg { width: 100%; height: auto; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.85rem; min-width: 100%; }
td, th { padding: 0.25rem 0.5rem; text-align: left; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; }
th small { display: block; font-weight: 400; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
tr:hover td { background: var(--card); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: 0.85rem; overflow-wrap: anywhere; }
</style></head><body>
<h1>Audit of {{ begin }} to {{ end }}</h1>
{% for sentence in missing %}<p class="missing doubt">{{ sentence }}</p>{% endfor %}
<p class="verdict {{ mood }}">{{ words }}</p>
{% if cards %}<div class="cards">{% for name, number, class in cards %}
<div class="card"><b class="{{ class }}">{{ shown(number) }}</b><span>{{ name }}</span></div>
{% endfor %}</div>
<p class="dim">Numbers are deliveries: one message for one receiver.</p>{% endif %}
<p class="dim">{{ files }} files of {{ nodes | length }} nodes: {{ nodes | join(', ') }}.
{% if share < 1 %}The recorders kept {{ '%g' | format(share * 100) }} % of the messages, and all numbers
are of these.{% endif %}</p>
<nav>{% for name, _, _ in jobs %}<a href="#{{ name }}">{{ name }}</a>{% endfor %}
<a href="#missing">what could not be judged</a></nav>
{% for name, told, charts in jobs %}
<h2 id="{{ name }}">{{ name }}</h2>
<p class="dim">{{ questions[name] }}</p>
{% for sentence in told.sentences %}<p>{{ sentence }}</p>{% endfor %}
{% if charts %}<div class="charts">{% for title, unit, chart in charts %}
<figure><figcaption>{{ title }} <span class="dim">({{ unit }})</span></figcaption>{{ chart }}</figure>
{% endfor %}</div>{% endif %}
{% for sheet in told.sheets %}<h3>{{ sheet.title }}</h3><div class="wide"><table>
<tr>{% for key in sheet.rows[0] %}{% set title, unit = heading(key) %}
<th{{ ' class=n' | safe if counted(sheet, key) }}>{{ title }}<small>{{ unit }}</small></th>{% endfor %}</tr>
{% for row in sheet.rows %}<tr>{% for key, value in row.items() %}
<td{{ ' class=n' | safe if counted(sheet, key) }}>{{ shown(value, key) }}</td>
{% endfor %}</tr>{% endfor %}
</table></div>{% endfor %}
{% endfor %}
<h2 id="missing">what could not be judged</h2>
{% if not (problems or holes) %}<p>Nothing: the recording is whole.</p>{% endif %}
{% if holes %}<p>In these spans a node's recorder was not looking:</p><div class="wide"><table>
<tr><th>node</th><th>from</th><th>to</th><th>why</th></tr>
{% for hole in holes[:most] %}<tr><td>{{ hole.node }}</td><td>{{ moment(hole.begin) }}</td>
<td>{{ moment(hole.end) }}</td><td>{{ hole.why }}</td></tr>{% endfor %}</table></div>{% endif %}
{% if holes | length > most %}<p class="dim">and {{ holes | length - most }} more.</p>{% endif %}
{% if problems %}<p>These files were not read as they are:</p>{% endif %}
{% for problem in problems[:most] %}
<p><b>{{ problem.kind }}</b> <code>{{ problem.path }}</code>: {{ problem.message }}</p>{% endfor %}
{% if problems | length > most %}<p class="dim">and {{ problems | length - most }} more.</p>{% endif %}
</body></html>
"""


def missing_in_words(outcome: Outcome) -> list[str]:
    """What has to be said before any verdict: nodes whose recordings are not here."""
    return [
        f"Missing: no recording of {node} is here, though {' and '.join(seers[:3])} saw it. What only it "
        "knows cannot be judged: bring its files too."
        for node, seers in outcome.missing.items()
    ]


def verdict_in_words(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """One sentence for somebody who reads nothing else."""
    blind = sum(told.numbers.get("undecidable", 0) for told in outcome.told.values())
    doubt = f"; {blind:,} deliveries could not be judged" if blind else ""
    if not doubt and outcome.holes:
        doubt = f"; what {_names(outcome)} did not record could not be judged"
    if broken:
        what = ", ".join(f"{number:,} {name}" for name, number in broken.items())
        return f"Promises were broken: {what}{doubt}."
    if "completeness" in outcome.told:
        numbers = outcome.told["completeness"].numbers
        owed, lost = numbers["owed"], numbers["lost"]
        if not owed:
            return f"Nothing was owed to anybody{doubt}."
        if not lost:
            return f"Nothing was lost of {owed:,} deliveries that were owed{doubt}."
        return f"{lost:,} of {owed:,} deliveries that were owed were lost{doubt}."
    return f"No promise that was asked for was broken{doubt}."


def _names(outcome: Outcome) -> str:
    return ", ".join(sorted({hole.node for hole in outcome.holes}))


def render(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """The page."""
    import jinja2
    from markupsafe import Markup

    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_PAGE)
    cards = _cards(outcome)
    lost = any(name == "lost" and number for name, number, _ in cards)
    return page.render(
        begin=f"{outcome.begin:%Y-%m-%d %H:%M:%S}",
        end=f"{outcome.end:%Y-%m-%d %H:%M:%S} UTC",
        missing=missing_in_words(outcome),
        words=verdict_in_words(outcome, broken),
        mood="bad" if broken or lost else "doubt" if outcome.holes else "good",
        cards=cards,
        share=outcome.share,
        files=outcome.files,
        nodes=outcome.nodes,
        problems=outcome.problems,
        holes=outcome.holes,
        most=_SHOWN,
        questions={name: job.question for name, job in JOBS.items()},
        # Ours, and not text of somebody's topics: ``charts`` escapes what it is given.
        jobs=[
            (
                name,
                told,
                [(c.title, c.unit, Markup(draw(c))) for c in told.charts if _worth_it(c)],  # noqa: S704
            )
            for name, told in outcome.told.items()
        ],
        moment=lambda micros: f"{datetime.fromtimestamp(micros / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S}",
        heading=heading,
        shown=shown,
        counted=_counted,
    )


def _counted(sheet: Sheet, column: str) -> bool:
    """Whether a column has numbers, which stand to the right."""
    values = [row[column] for row in sheet.rows if row[column] is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _worth_it(chart: Chart) -> bool:
    """A line through one point says nothing that a sentence does not."""
    return len(chart.labels) > (1 if chart.kind == "lines" else 0)


def _cards(outcome: Outcome) -> list[tuple[str, Any, str]]:
    if "completeness" not in outcome.told:
        return []
    numbers = outcome.told["completeness"].numbers
    moods = {"lost": "bad", "doubled": "bad", "misrouted": "bad", "late": "doubt", "undecidable": "doubt"}
    return [(name, number, moods.get(name, "") if number else "") for name, number in numbers.items()]
