"""Result files as one page, through the command."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stentor.bench.commands import app
from stentor.bench.plan import QUICK
from stentor.bench.records import Journal
from stentor.bench.servers import serving_fake
from support.audio import bursts, write
from support.results import HOSTILE, NATIVE, edited, level, lines_of, write_results

CLI = CliRunner()


class Reader(HTMLParser):
    """Collects a page's tags, its texts, and its tables by their labels."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._label = ""
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        given = dict(attrs)
        if given.get("role") == "region":
            self._label = given["aria-label"] or ""
        rows = self.tables.setdefault(self._label, [])
        if tag == "tr":
            rows.append([])
        self._in_cell = tag in ("td", "th")
        if self._in_cell:
            rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._in_cell:
            self.tables[self._label][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_results(tmp_path / "bench.jsonl")
    return tmp_path / "bench.jsonl"


def report(*files: Path) -> tuple[Result, str]:
    """Run the command in the working directory; its outcome and the page."""
    result = CLI.invoke(app, ["report", *map(str, files)])
    page = Path("report.html")
    return result, page.read_text(encoding="utf-8") if page.exists() else ""


def test_a_page_has_every_plot_and_every_command(results: Path) -> None:
    result, page = report(results)
    assert result.exit_code == 0, result.output
    assert "report.html: 14 results" in result.stdout
    read = Reader(page)
    pictures = [value for name, value in read.attributes if name == "aria-label" and ". " in value]
    assert [picture.split(".")[0].split(":")[0] for picture in pictures] == [
        "RTFx over requests in flight",
        "Latency",
        "Time to first delta",
        "RTFx over preprocessing workers",
    ]
    assert read.tags.count("svg") == len(pictures) + 3  # and the stages of each server and of the peer
    assert f"{HOSTILE}, whisper-1: 2.5 at 1, 2.5 at 4" in pictures[0]
    assert "Stentor native, base: 10 at 1, 20 at 4, 40 at 16" in pictures[0]
    headings = {"Engines, without a server", "Clients that leave", "Short clips beside a long file", "Chaos"}
    assert headings <= set(read.texts)


def test_the_table_holds_servers_against_each_other(results: Path) -> None:
    result, page = report(results)
    title = "2 files, 10 s of audio (en)"
    header, *rows = Reader(page).tables[f"Servers: {title}"]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(row["in flight"], row["RTFx"], row["of best"], row["errors"]) for row in found] == [
        ("1", "10.0", "1.00", "0"),
        ("1", "2.50", "0.25", "1"),
        ("1", "2.50", "0.25", "0"),
        ("4", "20.0", "1.00", "0"),
        ("4", "2.50", "0.12", "1"),
        ("16", "40.0", "1.00", "0"),
    ]
    assert found[0]["server"] == "Stentor native, base"
    assert found[1]["server"] == f"{HOSTILE}, whisper-1"
    assert (found[0]["p50 s"], found[0]["first delta p50 s"], found[0]["WER %"]) == ("1.00", "0.500", "50.00")
    assert (found[0]["peak RSS MB"], found[0]["live p99 ms"]) == ("300", "3.0")
    assert found[2]["first delta p50 s"] == "-"
    assert "CER %" not in header
    printed = next(line for line in result.stdout.splitlines() if line.startswith(title))
    assert "cores of" in printed
    assert re.search(r"Stentor native, base +4 +1 +20\.0 +1\.00", result.stdout)


def test_texts_of_results_are_texts_and_nothing_is_asked_of_anybody(results: Path) -> None:
    _, page = report(results)
    read = Reader(page)
    assert not {"script", "link", "img", "iframe", "b", "metadata"} & set(read.tags)
    assert not [value for name, value in read.attributes if name in ("src", "href") or name.startswith("on")]
    assert "@import" not in page
    assert "● Stentor native" in "".join(read.texts)
    assert f"{HOSTILE}, whisper-1" in "".join(read.texts)
    names = re.findall(r' id="([^"]*)"', page)
    assert set(re.findall(r"url\(([^)]*)\)", page)) <= {f"#{name}" for name in names}
    assert len(set(names)) == len(names)


BROKEN = {
    "not json": "no JSON",
    "{}": "bench: Field required",
    "[1]": "dictionary",
    '{"bench": NaN}': "NaN is no number",
    '{"bench": 1e999}': "1e999 is no number",
    "[" * 100_000: "no JSON",
}


def test_broken_lines_are_named_and_left_out(results: Path) -> None:
    level_line = results.read_text(encoding="utf-8").split("\n")[0]
    pool_line = next(
        line for line in results.read_text(encoding="utf-8").split("\n") if '"workers": "2"' in line
    )
    broken = {
        **BROKEN,
        edited(level_line, bench="dance"): "unknown bench 'dance'",
        edited(level_line, machine=None): "machine",
        edited(level_line, load__others_cpu="much"): "load.others_cpu",
        edited(level_line, figures__rtfx="fast"): "rtfx",
        edited(level_line, figures__rtfx=-1): "rtfx",
        edited(level_line, figures__latency={"p50_s": 1}): "latency.p95_s",
        edited(level_line, plan__concurrency=0): "concurrency",
        edited(level_line, plan__audio_s=int("9" * 400)): "is no number",
        edited(pool_line, figures__rtfx_min=None): "rtfx_min",
        edited(pool_line, plan__workers=2): "workers",
    }
    other = results.with_name("other.jsonl")
    other.write_bytes("\n".join((level_line, *broken)).encode() + b"\n\n\xff\xfe\n")
    result, page = report(other)
    assert result.exit_code == 0, result.output
    told = result.stderr.splitlines()
    assert len(told) == len(broken) + 1
    for number, (line, why) in enumerate(zip(told, [*broken.values(), "no JSON"], strict=True), start=2):
        assert why in line
        assert line.startswith(f"left out {other} line {number if number < len(told) + 1 else number + 1}: ")
    assert f"Left out ({len(told)})" in page
    assert "report.html: 1 results" in result.stdout


@pytest.mark.parametrize("content", ["", "not json\n"])
def test_files_without_results_are_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "bench.jsonl").write_text(content)
    result, page = report()
    assert result.exit_code == 2
    assert "bench.jsonl: no results" in result.stderr
    assert page == ""


def test_what_cannot_be_read_or_written_is_said(results: Path) -> None:
    assert CLI.invoke(app, ["report", "nothing.jsonl"]).exit_code == 2
    result = CLI.invoke(app, ["report", str(results), "--output", "nowhere/report.html"])
    assert result.exit_code == 2
    assert "nowhere/report.html cannot be written" in result.stderr
    results.unlink()
    result, _ = report()
    assert result.exit_code == 2
    assert "bench.jsonl cannot be read" in result.stderr


def test_machines_are_never_in_one_plot(results: Path) -> None:
    lines = results.read_text(encoding="utf-8").split("\n")
    with results.open("a", encoding="utf-8") as file:
        file.write(edited(lines[0], machine__cpu="Other CPU", figures__rtfx=99.0) + "\n")
        file.write(edited(lines[0], machine__python="3.14.0", name="Later") + "\n")
    result, page = report(results)
    read = Reader(page)
    pictures = [value for _, value in read.attributes if value.startswith("RTFx over requests in flight.")]
    assert ["99 at 1" in picture for picture in pictures] == [False, True]
    assert "Later, base: 10 at 1" in pictures[0]  # another Python is no other machine
    assert "several machines" in page
    assert result.stdout.count("2 files, 10 s of audio (en); ") == 2


def test_other_files_other_options_and_other_weights_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    Journal(path, "load", NATIVE).add(level(1, 1.0))
    (line,) = path.read_text(encoding="utf-8").splitlines()
    with path.open("a", encoding="utf-8") as file:
        file.write(edited(line, plan__stream=False) + "\n")
        file.write(edited(line, digest="cd" * 32) + "\n")
        file.write(edited(line, plan__utterances=3) + "\n")
    _, page = report(path)
    tables = Reader(page).tables
    labels = [row[0] for row in tables["Servers: 2 files, 10 s of audio (en)"][1:]]
    assert labels == [
        "Stentor native, base, stream=True, weights=abababab",
        "Stentor native, base, stream=False, weights=abababab",
        "Stentor native, base, stream=True, weights=cdcdcdcd",
    ]
    assert [row[0] for row in tables["Servers: 3 files, 10 s of audio (en)"][1:]] == ["Stentor native, base"]


def test_of_several_runs_the_median_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    journal = Journal(path, "load", NATIVE)
    for seconds in (1.0, 2.0, 4.0):
        journal.add(level(2, seconds))
    _, page = report(path)
    header, row = Reader(page).tables["Servers: 2 files, 10 s of audio (en)"]
    found = dict(zip(header, row, strict=True))
    assert (found["runs"], found["RTFx"], found["p50 s"]) == ("3", "5.00", "2.00")


def test_disturbed_figures_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    Journal(path, "load", NATIVE).add(level(1, 1.0))
    (line,) = path.read_text(encoding="utf-8").splitlines()
    for share, marked in ((0.02, False), (0.5, True)):
        path.write_text(edited(line, load__others_cpu=share))
        _, page = report(path)
        assert ("these figures are disturbed" in page) is marked
        header, row = Reader(page).tables["Servers: 2 files, 10 s of audio (en)"]
        assert dict(zip(header, row, strict=True))["others' CPU %"] == f"{100 * share:.0f}"


@pytest.mark.timeout(120)
def test_commands_write_what_the_report_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command that runs on the scripted engine, as anybody starts it, into the same file."""
    tiny = replace(QUICK, clip_s=1.0, ticker_s=0.02, upload_s=3.0, long_s=2.0, settings=("1",), decoding=(0,))
    monkeypatch.setattr("stentor.bench.plan.QUICK", tiny)
    (tmp_path / "audio").mkdir()
    speech = write(tmp_path / "audio" / "speech.wav", bursts(12, pause_every_s=4.0))
    with serving_fake(2_000_000) as target:
        once = ["--repeats", "1", "--long-s", "20"]
        where = ["--url", target.url, "--pid", str(target.pid), "--model", target.model]
        commands = [
            ["load", "--manifest", str(speech.parent), "--concurrency", "1,2", "--stream", *where],
            ["cancel", "--speech", str(speech), "--stage", "uploading", "--disconnect", "fin", *once, *where],
            ["chaos", "--requests", "20", "--max-upload-bytes", "2000000", *where],
            ["preprocess", "--quick", "--speech", str(speech), "--part", "server,loop", "--uploads", "2"],
        ]
        for command in commands:
            result = CLI.invoke(app, command)
            assert result.exit_code == 0, result.output
            assert re.search(r"\d+ lines? added to bench.jsonl\n$", result.stdout)
    result, page = report()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = lines_of(Path("bench.jsonl"))
    assert {line["bench"] for line in lines} == {command[0] for command in commands}
    for line in lines:
        assert line["versions"]["stentor"]
        assert line["machine"]["cores"] >= 1
        assert line["load"]["average_1m"] >= 0
        assert 0 <= line["load"]["others_cpu"] <= 1
    one, two = (line for line in lines if line["bench"] == "load")
    assert (one["name"], one["model"], one["digest"]) == ("stentor fake", "fake", None)
    assert one["versions"]["server"].startswith("stentor 0.")
    assert two["figures"]["streamed"] == two["figures"]["transcribed"] == 1
    assert two["figures"]["first_delta"]["p50_s"] > 0
    assert two["figures"]["stages_s"]["preprocess"] > 0
    assert "Seconds per request by stage: stentor fake, fake" in page
