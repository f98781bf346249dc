"""The page: machines, comparisons with their plots, and everything else as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from html import escape

from stentor.bench.markup import table
from stentor.bench.records import Line, Record, columns
from stentor.bench.report import plots
from stentor.bench.report.comparisons import Comparison, Level, Server, machine_key, machine_name
from stentor.bench.report.preprocessing import Pool
from stentor.bench.report.reading import Results
from stentor.bench.results import Latency
from stentor.bench.tables import NONE

TITLE = "Speech to text, measured"

BUSY_SHARE = 0.1
"""Of the processors: with more than that in other hands, a figure says little about what was measured."""

SECTIONS = {
    "load": "Load: other parts",
    "peers": "Peers: other parts",
    "preprocess": "Preprocessing",
    "engine": "Engines, without a server",
    "cancel": "Clients that leave",
    "fairness": "Short clips beside a long file",
    "chaos": "Chaos",
}

STYLE = """
:root { --grid: #d5d5d5; --colour-0: #0b5fa5; --colour-1: #a8430c; --colour-2: #006b55; --colour-3: #8a3a80;
  --colour-4: #6f5900; --colour-5: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root { --grid: #474747; --colour-0: #6db7f2; --colour-1: #f59a6b;
  --colour-2: #5fd3b4; --colour-3: #e79adf; --colour-4: #e2c75a; --colour-5: #c4c4c4; } }
.text td, .text th { text-align: left; } .narrow { max-width: 38rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; font-size: 14px; } svg { width: 100%; height: auto; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: 14px; }
""" + "\n".join(f".c{index} {{ color: var(--colour-{index}); }}" for index in range(plots.COLOURS))


def body(results: Results, comparisons: Sequence[Comparison], pools: Sequence[Pool]) -> Iterator[str]:
    """The page's content."""
    lines, skipped = results.lines, results.skipped
    began, ended = min(line.time for line in lines), max(line.time for line in lines)
    yield f"<p>{len(lines)} results, {escape(began)} to {escape(ended)}.</p>"
    if skipped:
        yield f"<p>Left out ({len(skipped)}):</p><ul>"
        yield from (f"<li>{escape(str(each))}</li>" for each in skipped)
        yield "</ul>"
    yield "<h2>Machines and versions</h2>"
    yield from _machines(lines)
    for number, comparison in enumerate(comparisons):
        yield from _comparison(f"c{number}", comparison)
    for number, pool in enumerate(pools):
        yield from _pool(f"w{number}", pool)
    yield from _others(results.others)


def _machines(lines: Sequence[Line]) -> Iterator[str]:
    """The machines, and what was measured on each."""
    if len({machine_key(line.machine) for line in lines}) > 1:
        yield "<p>These results are of several machines. Each plot and table is of one of them.</p>"
    told = ((machine_name(m), m.platform, m.python) for m in (line.machine for line in lines))
    yield '<div class="text">'
    yield from table(["machine", "platform", "Python"], list(dict.fromkeys(told)), "Machines")
    rows: dict[tuple[str, ...], str] = {}
    for line in lines:
        average = line.load.average_1m
        what = (line.name, *_identity(line), machine_name(line.machine))
        rows.setdefault(what, NONE if average is None else f"{average:.2f}")
    header = ["measured", "model", "weights", "versions", "machine", "its load before"]
    yield from table(header, [[*what, average] for what, average in rows.items()], "What was measured")
    yield "</div>"


def _identity(line: Line) -> tuple[str, str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in line.versions.items())
    return line.model or NONE, (line.digest or NONE)[:12], versions


def _comparison(slug: str, comparison: Comparison) -> Iterator[str]:
    where = machine_name(comparison.machine)
    yield f"<h2>Servers: {escape(comparison.files)}</h2><p>{escape(where)}</p>"
    yield from _legend([server.label for server in comparison.servers])
    yield '<div class="plots">'
    yield from _figure("RTFx over requests in flight", _rtfx_plot(f"{slug}-rtfx", comparison))
    for name, title, latency in (
        ("latency", "Latency: p50 (solid) and p95 (dashed)", _latency),
        ("delta", "Time to first delta: p50 (solid) and p95 (dashed)", _first_delta),
    ):
        yield from _figure(title, _latency_plot(f"{slug}-{name}", title, comparison, latency))
    yield "</div>"
    if any((level.line.load.others_cpu or 0) > BUSY_SHARE for level in _levels(comparison)):
        yield (
            "<p><strong>Other programs used more than a tenth of this machine in some of these runs</strong> "
            "(last column): these figures are disturbed.</p>"
        )
    yield from table(*comparison.table(), f"Servers: {comparison.files}")
    for number, server in enumerate(comparison.servers):
        yield from _stages(f"{slug}-stages{number}", server)


def _levels(comparison: Comparison) -> Iterator[Level]:
    for server in comparison.servers:
        yield from server.levels.values()


def _legend(labels: Sequence[str]) -> Iterator[str]:
    yield '<ul class="legend">'
    for index, label in enumerate(labels):
        mark = f'<span class="c{plots.colour(index)}" aria-hidden="true">{plots.glyph(index)}</span>'
        yield f"<li>{mark} {escape(label)}</li>"
    yield "</ul>"


def _figure(title: str, picture: str | None) -> Iterator[str]:
    if picture is not None:
        yield f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>"


def _rtfx_plot(slug: str, comparison: Comparison) -> str:
    curves = [
        plots.Curve(number, {level.plan.concurrency: level.figures.rtfx for level in server.levels.values()})
        for number, server in enumerate(comparison.servers)
    ]
    return plots.curves(slug, _said("RTFx over requests in flight", comparison, curves), "RTFx", curves)


def _latency(level: Level) -> Latency | None:
    return level.figures.latency


def _first_delta(level: Level) -> Latency | None:
    return level.figures.first_delta


def _latency_plot(
    slug: str, title: str, comparison: Comparison, of: Callable[[Level], Latency | None]
) -> str | None:
    """None where nobody measured it."""
    curves = []
    for number, server in enumerate(comparison.servers):
        known = {
            concurrency: latency
            for concurrency, level in server.levels.items()
            if (latency := of(level)) is not None
        }
        if known:
            curves.append(plots.Curve(number, {at: latency.p50_s for at, latency in known.items()}))
            p95 = {at: latency.p95_s for at, latency in known.items()}
            curves.append(plots.Curve(number, p95, dashed=True))
    return plots.curves(slug, _said(title, comparison, curves), "seconds", curves) if curves else None


def _said(title: str, comparison: Comparison, curves: Sequence[plots.Curve]) -> str:
    """A plot in words."""
    told = []
    for curve in curves:
        points = ", ".join(f"{value:.3g} at {at}" for at, value in curve.values.items())
        which = " p95" if curve.dashed else ""
        told.append(f"{comparison.servers[curve.server].label}{which}: {points}")
    return f"{title}. {'; '.join(told)}."


def _stages(slug: str, server: Server) -> Iterator[str]:
    """Where a request's time goes in a Stentor."""
    bars = {str(at): level.stages_s for at, level in server.levels.items() if level.stages_s}
    if not bars:
        return
    stages = list(dict.fromkeys(stage for bar in bars.values() for stage in bar))
    bars = {at: {stage: bar.get(stage, 0.0) for stage in stages} for at, bar in bars.items()}
    title = f"Seconds per request by stage: {server.label}"
    yield f"<h3>{escape(title)}</h3>"
    yield (
        "<p>Chunks of a request are decoded and computed side by side, so that its stages may add up to more "
        "than its latency.</p>"
    )
    yield '<ul class="legend">'
    for index, stage in enumerate(stages):
        mark = f'<span class="c{plots.stage_colour(index)}" aria-hidden="true">■</span>'
        yield f"<li>{mark} {escape(stage)}</li>"
    yield "</ul>"
    picture = plots.stacks(slug, f"{title}, as in the table below.", bars)
    yield '<div class="narrow">'
    yield from _figure("Seconds per request", picture)
    yield "</div>"
    rows = [[at, *(f"{bar[stage]:.4f}" for stage in stages)] for at, bar in bars.items()]
    yield from table(["in flight", *stages], rows, title)


def _pool(slug: str, pool: Pool) -> Iterator[str]:
    yield f"<h2>RTFx over preprocessing workers</h2><p>{escape(machine_name(pool.machine))}</p>"
    said = ", ".join(
        f"{setting}: {spread.median:.4g}" for setting, spread in zip(pool.settings, pool.rtfx, strict=True)
    )
    picture = plots.workers(slug, f"RTFx over preprocessing workers. {said}.", pool.settings, pool.rtfx)
    yield '<div class="narrow">'
    yield from _figure(pool.title, picture)
    yield "</div>"
    yield from _records(pool.lines)


def _others(lines: Sequence[Line]) -> Iterator[str]:
    """All other results, a table for each part of a command on a machine."""
    for bench, heading in SECTIONS.items():
        parts: defaultdict[tuple[object, str], list[Line]] = defaultdict(list)
        for line in lines:
            if line.bench == bench:
                parts[machine_key(line.machine), line.part].append(line)
        if parts:
            yield f"<h2>{escape(heading)}</h2>"
        for own in parts.values():
            yield f"<h3>{escape(own[0].part)}, {escape(machine_name(own[0].machine))}</h3>"
            yield from _records(own)


def _records(lines: Sequence[Line]) -> Iterator[str]:
    """Results of one part as a table."""
    records = []
    for line in lines:
        told = dict(zip(("of", "model", "weights", "versions"), (line.name, *_identity(line)), strict=True))
        share = line.load.others_cpu
        figures = {**line.figures, "others' CPU %": None if share is None else round(100 * share)}
        known = {name: value for name, value in told.items() if value != NONE}
        records.append(Record(line.part, {**known, **line.plan}, figures))
    title, header, rows = columns(records)
    yield f"<p>{escape(title)}</p>"
    yield from table(header, rows, title)
