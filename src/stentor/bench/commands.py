"""`stentor bench`: how fast a server is, and what it does about clients that leave or misbehave.

httpx, jiwer, matplotlib and psutil come with an extra, so everything that needs them is imported when a
command runs: the rest of the command line works without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from stentor.bench.options import (
    RESULTS,
    JsonOption,
    KeyOption,
    LanguageOption,
    LimitOption,
    ManifestOption,
    MetricsOption,
    NameOption,
    PidOption,
    PrefixOption,
    SendLanguageOption,
    ServerOption,
    SpeechOption,
    explained,
    levels_of,
)

if TYPE_CHECKING:
    from stentor.bench.calls import Target
    from stentor.bench.measurement import Measurement
    from stentor.bench.records import Journal, Subject

app = typer.Typer(no_args_is_help=True, help="Measure a server: speed, latency, errors and word error rate.")


@app.command()
def load(
    manifest: ManifestOption,
    model: Annotated[str, typer.Option(help="The model's name on the server.")],
    url: Annotated[str, typer.Option(help="Any OpenAI-compatible server.")] = "http://127.0.0.1:8000",
    language: LanguageOption = None,
    prefix: PrefixOption = "",
    limit: LimitOption = None,
    concurrency: Annotated[str, typer.Option(help="Requests in flight, one level each.")] = "1,4,16",
    send_language: SendLanguageOption = True,
    pid: Annotated[int | None, typer.Option(help="The server's pid: CPU and memory of its tree.")] = None,
    health_path: Annotated[str, typer.Option(help="Probed every 20 ms.")] = "/health/live",
    metrics_path: MetricsOption = "/metrics",
    stream: Annotated[bool, typer.Option("--stream", help="Take answers piece by piece.")] = False,
    response_format: Annotated[
        Literal["json", "text", "verbose_json", "srt", "vtt"],
        typer.Option(help="srt and vtt are not scored."),
    ] = "json",
    name: NameOption = None,
    json_file: JsonOption = RESULTS,
    api_key: KeyOption = None,
) -> None:
    """Send every file once at each level of concurrency."""
    levels = levels_of(concurrency)
    with explained():
        from stentor.bench.calls import Target
        from stentor.bench.identity import subject_of
        from stentor.bench.load import LoadPlan, run_load
        from stentor.bench.manifest import load_utterances
        from stentor.bench.measurement import Measurement
        from stentor.bench.progress import progress

        plan = LoadPlan(
            url=url,
            model=model,
            utterances=load_utterances(manifest, language=language, prefix=prefix, limit=limit),
            concurrency=levels,
            send_language=send_language,
            stream=stream,
            response_format=response_format,
            api_key=api_key,
            pid=pid,
            health_path=health_path,
            metrics_path=metrics_path or None,
        )
        options = {"send_language": send_language, "stream": stream, "response_format": response_format}
        subject = subject_of(Target(url, model, api_key=api_key), name)
        with (
            _journal(json_file, "load", subject, pid) as journal,
            _reported(journal, subject) as report,
            progress("requests", len(levels) * len(plan.utterances)) as advance,
        ):
            asyncio.run(run_load(plan, lambda level: report(Measurement.of(options, level)), advance))


@app.command()
def peers(
    manifest: ManifestOption,
    model_dir: Annotated[Path, typer.Option(file_okay=False, exists=True, help="CTranslate2 weights.")],
    language: LanguageOption = None,
    prefix: PrefixOption = "",
    limit: LimitOption = None,
    send_language: SendLanguageOption = True,
    batched: Annotated[bool, typer.Option("--batched", help="Use BatchedInferencePipeline.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="With --batched.")] = 8,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    cpu_threads: Annotated[int, typer.Option(min=0, help="0: as the library chooses.")] = 0,
    name: NameOption = None,
    json_file: JsonOption = RESULTS,
) -> None:
    """Transcribe the same files with faster-whisper, in this program: int8, beam 1."""
    with explained():
        from stentor.bench.manifest import load_utterances
        from stentor.bench.measurement import Measurement
        from stentor.bench.peers import PeerPlan, peer_subject, run_peer
        from stentor.bench.progress import progress

        plan = PeerPlan(
            model_dir=model_dir,
            utterances=load_utterances(manifest, language=language, prefix=prefix, limit=limit),
            send_language=send_language,
            batch_size=batch_size if batched else None,
            device=device,
            cpu_threads=cpu_threads,
        )
        options = {
            "send_language": send_language,
            "batch_size": plan.batch_size,
            "device": device,
            "cpu_threads": cpu_threads,
        }
        subject = peer_subject(plan, name)
        with (
            _journal(json_file, "peers", subject) as journal,
            _reported(journal, subject) as report,
            progress("files", len(plan.utterances)) as advance,
        ):
            report(Measurement.of(options, run_peer(plan, advance)))


@app.command()
def preprocess(
    speech: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Speech to make all inputs from.")
    ] = None,
    part: Annotated[str, typer.Option(help="What to measure; loop and memory also do with noise.")] = (
        "clips,server,loop,memory"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Short inputs, once: to see that it works.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Medians of so many. [default: 5]")] = None,
    uploads: Annotated[int, typer.Option(min=1, help="Sent to a server at once.")] = 16,
    engine: Annotated[Literal["fake", "ct2"], typer.Option(help="The servers'; fake is no limit.")] = "fake",
    model: Annotated[str, typer.Option(help="With ct2.")] = "tiny.en",
    json_file: JsonOption = RESULTS,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="An SVG: RTFx over workers.")] = None,
) -> None:
    """Measure decoding, resampling and cutting, here and in servers started for it."""
    with explained():
        from stentor.bench.plan import FULL, QUICK
        from stentor.bench.preprocess import run_parts
        from stentor.bench.records import Subject, versions_of
        from stentor.models import resolve

        plan = QUICK if quick else FULL
        plan = replace(plan, repeats=repeats or plan.repeats, uploads=uploads, engine=engine, model=model)
        served = resolve(model) if engine == "ct2" else None
        versions = {"engine": engine, **versions_of("av", "numpy", "soxr")}
        subject = Subject("stentor", versions=versions)
        if served is not None:
            subject = replace(subject, model=served.name, digest=served.digest)
        with _journal(json_file, "preprocess", subject) as journal:
            answered = run_parts(plan, part.split(","), speech, journal.add, plot=plot)
    if not answered:
        raise typer.Exit(1)


@app.command()
def engine(
    manifest: ManifestOption,
    model: Annotated[str, typer.Option(help="Directory, packaged name or hub id.")] = "tiny.en",
    language: Annotated[str, typer.Option(help="Of the files (a code).")] = "en",
    prefix: PrefixOption = "",
    chunks: Annotated[int, typer.Option(min=2, help="So many, from the longest files first.")] = 64,
    batches: Annotated[str, typer.Option(help="Native's batch sizes.")] = "1,8,16,32",
    part: Annotated[str, typer.Option(help="What to measure.")] = "speed,limits,abort",
    aborts: Annotated[int, typer.Option(min=2, help="Requests aborted.")] = 50,
    json_file: JsonOption = RESULTS,
) -> None:
    """Measure the engines themselves, in this program, on the same chunks with the same weights."""
    with explained():
        from stentor.bench.engine import EnginePlan, cut_chunks, run_engine
        from stentor.bench.manifest import load_utterances
        from stentor.bench.records import Subject, versions_of
        from stentor.models import resolve

        utterances = load_utterances(manifest, language=language, prefix=prefix)
        longest_first = sorted(utterances, key=lambda utterance: -(utterance.seconds or 0.0))
        plan = EnginePlan(
            model=resolve(model),
            chunks=cut_chunks([utterance.path for utterance in longest_first], chunks),
            language=language,
            batches=levels_of(batches),
            aborts=aborts,
        )
        versions = versions_of("stentor-native", "ctranslate2", "faster-whisper")
        subject = Subject("engines", model=plan.model.name, digest=plan.model.digest, versions=versions)
        with _journal(json_file, "engine", subject) as journal:
            run_engine(plan, part.split(","), journal.add)


@app.command()
def cancel(
    speech: SpeechOption,
    url: ServerOption = None,
    pid: PidOption = None,
    model: Annotated[str, typer.Option(help="To serve; with --url, its name there.")] = "tiny.en",
    metrics_path: MetricsOption = "/metrics",
    stage: Annotated[str, typer.Option(help="Where to leave; see stages.py. [default: all]")] = "",
    disconnect: Annotated[str, typer.Option(help="How to leave.")] = "fin,rst",
    repeats: Annotated[int, typer.Option(min=1, help="Medians of so many.")] = 3,
    long_s: Annotated[float, typer.Option(min=1, help="Seconds of a long audio.")] = 600.0,
    limit_s: Annotated[float, typer.Option(min=1, help="For the server to come to rest.")] = 300.0,
    name: NameOption = None,
    json_file: JsonOption = RESULTS,
    api_key: KeyOption = None,
) -> None:
    """Leave requests at every stage: how soon is the server free, and how soon does it serve the next?"""
    with explained():
        from stentor.bench.cancel import CancelPlan, run_cancel
        from stentor.bench.identity import subject_of
        from stentor.bench.servers import serving_model

        plan = CancelPlan.of(stage, disconnect, repeats=repeats, long_s=long_s, limit_s=limit_s)
        running = _running(url, model, pid, metrics_path, api_key)
        with (
            running or serving_model(model) as target,
            _journal(json_file, "cancel", subject_of(target, name), target.pid) as journal,
        ):
            at_rest = run_cancel(plan, target, speech, journal.add)
    if not at_rest:
        raise typer.Exit(1)


@app.command()
def chaos(
    speech: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Speech to make clips from; else noise.")
    ] = None,
    url: ServerOption = None,
    pid: PidOption = None,
    model: Annotated[str, typer.Option(help="With --url: its name there.")] = "whisper-1",
    metrics_path: MetricsOption = "/metrics",
    requests: Annotated[int, typer.Option(min=1, help="How many.")] = 10_000,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 64,
    seed: Annotated[int, typer.Option(help="The same seed sends the same.")] = 1,
    max_upload_bytes: Annotated[
        int | None, typer.Option(min=1, help="With --url: the largest body it takes.")
    ] = None,
    name: NameOption = None,
    json_file: JsonOption = RESULTS,
    api_key: KeyOption = None,
) -> None:
    """Send good, broken, slow, oversize and abandoned requests at once; check answers, books and leaks."""
    with explained():
        from stentor.bench.chaos import MAX_UPLOAD_BYTES, ChaosPlan, run_chaos
        from stentor.bench.identity import subject_of
        from stentor.bench.servers import serving_fake

        running = _running(url, model, pid, metrics_path, api_key)
        if running is None:
            max_upload_bytes = MAX_UPLOAD_BYTES
        plan = ChaosPlan(requests, concurrency, seed, max_upload_bytes)
        with (
            running or serving_fake(MAX_UPLOAD_BYTES) as target,
            _journal(json_file, "chaos", subject_of(target, name), target.pid) as journal,
        ):
            passed = run_chaos(plan, target, speech, journal.add)
    if not passed:
        raise typer.Exit(1)


@app.command()
def fairness(
    speech: SpeechOption,
    url: ServerOption = None,
    pid: PidOption = None,
    model: Annotated[str, typer.Option(help="To serve; with --url, its name there.")] = "tiny.en",
    long_s: Annotated[float, typer.Option(min=60, help="Seconds of the long audio.")] = 7200.0,
    clips: Annotated[int, typer.Option(min=1, help="Short clips, one a second.")] = 60,
    name: NameOption = None,
    json_file: JsonOption = RESULTS,
    api_key: KeyOption = None,
) -> None:
    """Send a short clip a second beside a long file: does the file keep the clips waiting?"""
    with explained():
        from stentor.bench.fairness import FairnessPlan, run_fairness
        from stentor.bench.identity import subject_of
        from stentor.bench.servers import serving_model

        running = _running(url, model, pid, "", api_key)
        plan = FairnessPlan(long_s=long_s, clips=clips)
        with (
            running or serving_model(model) as target,
            _journal(json_file, "fairness", subject_of(target, name), target.pid) as journal,
        ):
            run_fairness(plan, target, speech, journal.add)


@app.command()
def report(
    files: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help=f"Results. [default: {RESULTS}]"),
    ] = None,
    output: Annotated[Path, typer.Option(dir_okay=False, help="The page.")] = Path("report.html"),
) -> None:
    """Join result files into one page with plots, and print how servers compare."""
    with explained():
        from stentor.bench.report.writing import write_report

        write_report(files or [RESULTS], output, Console(), Console(stderr=True))


def _running(
    url: str | None, model: str, pid: int | None, metrics_path: str, api_key: str | None
) -> AbstractContextManager[Target] | None:
    """The server that the options tell of; None when the bench shall start one."""
    from stentor.bench.calls import Target

    if url is None:
        return None
    return nullcontext(Target(url, model, pid, metrics_path or None, api_key))


@contextmanager
def _journal(path: Path, bench: str, subject: Subject, pid: int | None = None) -> Iterator[Journal]:
    """Keep what a command finds, and say at last where."""
    from stentor.bench.records import Journal

    journal = Journal(path, bench, subject, pid=pid)
    try:
        yield journal
    finally:
        if journal.lines:
            typer.echo(f"{journal.lines} {'line' if journal.lines == 1 else 'lines'} added to {path}")


@contextmanager
def _reported(journal: Journal, subject: Subject) -> Iterator[Callable[[Measurement], None]]:
    """Store each measurement at once and print all at the end, also at one that Ctrl-C brings early.

    Exits with 1 when not one file was transcribed.
    """
    from stentor.bench.measurement import show

    measurements: list[Measurement] = []

    def report(measurement: Measurement) -> None:
        measurements.append(measurement)
        journal.add(measurement.record())

    try:
        yield report
    finally:
        model = f", {subject.model}" if subject.model else ""
        where = f" at {subject.url}" if subject.url else ""
        show(subject.name + model + where, measurements, Console())
    if not any(measurement.level.transcribed for measurement in measurements):
        raise typer.Exit(1)
