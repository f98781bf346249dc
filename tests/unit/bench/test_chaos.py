from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stentor.bench.calls import Target
from stentor.bench.cases import CASES, Kind
from stentor.bench.chaos import MAX_UPLOAD_BYTES, ChaosPlan, measure_chaos
from stentor.bench.checks import ChaosResult, Check, Ending, Settled
from stentor.bench.commands import app
from stentor.bench.footprint import Footprint
from stentor.bench.inputs import Inputs
from stentor.bench.series import Series
from stentor.engine.fake import FakeEngine
from stentor.errors import SetupError
from stentor.types import EngineRequest, Segment
from support.server import serving

CLI = CliRunner()
SMALL = ChaosPlan(100, 8, max_upload_bytes=MAX_UPLOAD_BYTES, slow_s=0.1, stay_s=0.05)
BALANCED = (
    'stentor_requests_received_total{endpoint="transcribe"} 7.0\n'
    'stentor_requests_ended_total{endpoint="transcribe",outcome="finished",reason="ok"} 4.0\n'
    'stentor_requests_ended_total{endpoint="transcribe",outcome="failed",reason="invalid_audio"} 3.0\n'
)
FOOTPRINT = Footprint(100_000_000, 20, 10, 0)
CHECKS = [
    *("answers", "refusals", "disconnects", "alive", "rest", "books"),
    *("memory", "fds", "threads", "temp_files"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"), None)


def failed(result: ChaosResult) -> list[str]:
    return [check.name for check in result.checks() if not check.passed]


async def test_a_sound_server_passes(inputs: Inputs) -> None:
    said: list[tuple[int, int]] = []
    async with serving(FakeEngine(), max_upload_bytes=MAX_UPLOAD_BYTES) as served:
        target = Target(served.url, "fake")
        result = await measure_chaos(SMALL, target, inputs, lambda *told: said.append(told))
    assert result.wrong == ()
    assert failed(result) == []
    assert [ending.number for ending in result.endings] == list(range(SMALL.requests))
    assert {ending.case for ending in result.endings} == set(CASES)
    assert said == [(done, 0) for done in range(1, SMALL.requests + 1)]


async def test_the_same_seed_sends_the_same(inputs: Inputs) -> None:
    async def cases(seed: int) -> list[str]:
        plan = replace(SMALL, requests=20, seed=seed)
        result = await measure_chaos(plan, Target(served.url, "fake"), inputs)
        return [ending.case for ending in result.endings]

    async with serving(FakeEngine(), max_upload_bytes=MAX_UPLOAD_BYTES) as served:
        first, again, other = await cases(1), await cases(1), await cases(2)
    assert first == again != other


async def test_wrong_answers_and_missing_refusals_are_found(inputs: Inputs) -> None:
    count = itertools.count()

    def fickle(request: EngineRequest) -> Sequence[Segment]:
        return (Segment(f" {next(count)}", 0.0, request.chunk.duration_s),)

    async with serving(FakeEngine(fickle)) as served:  # with a limit for bodies that none of them passes
        result = await measure_chaos(replace(SMALL, answer_s=1.0), Target(served.url, "fake"), inputs)
    assert failed(result) == ["answers", "refusals"]
    wrong = {ending.case: ending.wrong for ending in result.wrong}
    assert wrong.keys() == {"good", "slow", "oversize_declared", "oversize_chunked"}
    assert "not transcribed as before: 200" in str(wrong["good"])
    assert "not refused with 413" in str(wrong["oversize_chunked"])
    assert "no answer: TimeoutError" in str(wrong["oversize_declared"])


async def test_server_that_dies_is_named(inputs: Inputs) -> None:
    def dying(request: EngineRequest) -> Sequence[Segment]:
        if len(engine.finished) >= 20:
            raise RuntimeError("out of tokens")
        return (Segment(" same", 0.0, 1.0),)

    engine = FakeEngine(dying)
    async with serving(engine, max_upload_bytes=MAX_UPLOAD_BYTES) as served:
        result = await measure_chaos(SMALL, Target(served.url, "fake"), inputs)
    assert failed(result) == ["answers"]
    assert "503" in str(result.wrong[-1].wrong)


async def test_nothing_is_sent_where_nothing_is_transcribed(inputs: Inputs) -> None:
    with pytest.raises(SetupError, match="does not answer"):
        await measure_chaos(SMALL, Target("http://127.0.0.1:9", "m"), inputs)
    async with serving(FakeEngine()) as served:
        with pytest.raises(SetupError, match=r"does not transcribe .*: 404"):
            await measure_chaos(SMALL, Target(served.url, "no-such-model"), inputs)


def test_command_starts_a_server_and_stores_what_it_found(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    options = ["--requests", "150", "--concurrency", "16", "--json", str(runs)]
    result = CLI.invoke(app, ["chaos", *options])
    assert result.exit_code == 0, result.output
    assert "all checks passed" in result.stdout
    assert "150 of 150 requests, 0 wrong" in result.stdout
    records = [json.loads(line) for line in runs.read_text().splitlines()]
    assert [record["plan"]["case"] for record in records if record["part"] == "chaos"] == list(CASES)
    assert sum(record["figures"].get("sent", 0) for record in records) == 150
    checks = [record for record in records if record["part"] == "chaos checks"]
    assert [record["plan"]["check"] for record in checks] == CHECKS
    assert {record["figures"]["passed"] for record in checks} == {"yes"}
    assert records[-1]["figures"]["requests_per_s"] > 0


def test_failed_check_is_named_and_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stentor.bench.checks.FD_SLACK", -1_000)
    result = CLI.invoke(app, ["chaos", "--requests", "20"])
    assert result.exit_code == 1
    assert "FAILED: fds" in result.stdout


def outcome(end: Settled, *endings: Ending) -> ChaosResult:
    return ChaosResult(endings, 1.0, Settled(series=Series(BALANCED), footprint=FOOTPRINT), end)


def test_every_check_can_pass() -> None:
    result = outcome(Settled(series=Series(BALANCED), footprint=FOOTPRINT), Ending(0, "good", None))
    assert [check.name for check in result.checks()] == CHECKS
    assert failed(result) == []


@pytest.mark.parametrize(
    ("end", "names"),
    [
        (Settled(gone="no answer"), ["alive"]),
        (Settled(late=True), ["rest"]),
        (Settled(late=True, series=Series(f"{BALANCED}stentor_engine_running 1.0\n")), ["rest"]),
        (Settled(series=Series(BALANCED.replace("7.0", "8.0"))), ["books"]),
        (Settled(series=Series("")), ["books"]),
        (Settled(footprint=replace(FOOTPRINT, rss_bytes=140_000_000)), ["memory"]),
        (Settled(footprint=replace(FOOTPRINT, fds=30)), ["fds"]),
        (Settled(footprint=replace(FOOTPRINT, threads=20)), ["threads"]),
        (Settled(footprint=replace(FOOTPRINT, temp_files=1)), ["temp_files"]),
    ],
)
def test_every_check_can_fail(end: Settled, names: list[str]) -> None:
    assert failed(outcome(end)) == names


@pytest.mark.parametrize("kind", Kind)
def test_a_case_gone_wrong_fails_the_check_of_its_kind(kind: Kind) -> None:
    case = next(name for name, case in CASES.items() if case.kind is kind)
    result = outcome(Settled(), Ending(3, case, "no answer"), Ending(4, "good", None))
    assert failed(result) == [kind.value]
    (check,) = (check for check in result.checks() if not check.passed)
    assert check == Check(kind.value, False, f"1 of {2 if kind is Kind.ANSWER else 1} wrong")


def test_footprint_counts_temporary_files_and_knows_no_strange_pid() -> None:
    before = Footprint.of(os.getpid())
    with tempfile.TemporaryFile():
        held = Footprint.of(os.getpid())
    assert held.temp_files == before.temp_files + 1
    assert held.fds >= 1
    assert held.rss_bytes > 1_000_000
    assert Footprint.of(os.getpid()).temp_files == before.temp_files
    with pytest.raises(SetupError, match="is gone"):
        Footprint.of(2**30)
