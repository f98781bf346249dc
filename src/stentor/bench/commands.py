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

from stentor.errors import SetupError

if TYPE_CHECKING:
    from stentor.bench.calls import Target
    from stentor.bench.report import Measurement

EXTRA_MODULES = frozenset({"cn2an", "httpx", "jiwer", "matplotlib", "opencc", "psutil", "whisper_normalizer"})
"""What `pip install stentor[bench]` brings."""

app = typer.Typer(no_args_is_help=True, help="Measure a server: speed, latency, errors and word error rate.")

ManifestOption = Annotated[
    Path, typer.Option(exists=True, help="A manifest.jsonl, or a directory of audio files (no references).")
]
LanguageOption = Annotated[str | None, typer.Option(help="Only files in this language (a code).")]
PrefixOption = Annotated[str, typer.Option(help="Only files whose path in the manifest begins so.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Only so many files, from the start.")]
SendLanguageOption = Annotated[bool, typer.Option(help="Tell the language, or let it be detected.")]
SpeechOption = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Speech to make inputs from.")]
ServerOption = Annotated[str | None, typer.Option("--url", help="A running server; else one is started.")]
PidOption = Annotated[int | None, typer.Option(help="With --url: the server's pid, to watch its tree.")]
MetricsOption = Annotated[str, typer.Option(help='With --url: where a Stentor counts; "" for other servers.')]
KeyOption = Annotated[str | None, typer.Option(envvar="STENTOR_BENCH_API_KEY", show_envvar=True)]
JsonOption = Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Append one line per level.")]


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
    json_file: JsonOption = None,
    api_key: KeyOption = None,
) -> None:
    """Send every file once at each level of concurrency."""
    levels = _levels(concurrency)
    with explained():
        from stentor.bench.load import LoadPlan, run_load
        from stentor.bench.manifest import load_utterances
        from stentor.bench.report import Measurement, Subject

        plan = LoadPlan(
            url=url,
            model=model,
            utterances=load_utterances(manifest, language=language, prefix=prefix, limit=limit),
            concurrency=levels,
            send_language=send_language,
            api_key=api_key,
            pid=pid,
            health_path=health_path,
        )
        subject = Subject(model, url, {"send_language": send_language})
        with _reported(json_file) as report:
            asyncio.run(run_load(plan, lambda level: report(Measurement.of(subject, level))))


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
    json_file: JsonOption = None,
) -> None:
    """Transcribe the same files with faster-whisper, in this program: int8, beam 1."""
    with explained():
        from stentor.bench.manifest import load_utterances
        from stentor.bench.peers import PeerPlan, peer_name, run_peer
        from stentor.bench.report import Measurement, Subject

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
        with _reported(json_file) as report:
            report(Measurement.of(Subject(peer_name(plan), None, options), run_peer(plan)))


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
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Append the rows.")] = None,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="An SVG: RTFx over workers.")] = None,
) -> None:
    """Measure decoding, resampling and cutting, here and in servers started for it."""
    with explained():
        from stentor.bench.plan import FULL, QUICK
        from stentor.bench.preprocess import run_parts

        plan = QUICK if quick else FULL
        plan = replace(plan, repeats=repeats or plan.repeats, uploads=uploads, engine=engine, model=model)
        answered = run_parts(plan, part.split(","), speech, json_file=json_file, plot=plot)
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
    json_file: Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Append the rows.")] = None,
) -> None:
    """Measure the engines themselves, in this program, on the same chunks with the same weights."""
    with explained():
        from stentor.bench.engine import EnginePlan, cut_chunks, run_engine
        from stentor.bench.manifest import load_utterances
        from stentor.models import resolve

        utterances = load_utterances(manifest, language=language, prefix=prefix)
        longest_first = sorted(utterances, key=lambda utterance: -(utterance.seconds or 0.0))
        plan = EnginePlan(
            model=resolve(model),
            chunks=cut_chunks([utterance.path for utterance in longest_first], chunks),
            language=language,
            batches=_levels(batches),
            aborts=aborts,
        )
        run_engine(plan, part.split(","), json_file=json_file)


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
    json_file: JsonOption = None,
    api_key: KeyOption = None,
) -> None:
    """Leave requests at every stage: how soon is the server free, and how soon does it serve the next?"""
    with explained():
        from stentor.bench.cancel import CancelPlan, run_cancel
        from stentor.bench.servers import serving_model

        plan = CancelPlan.of(stage, disconnect, repeats=repeats, long_s=long_s, limit_s=limit_s)
        running = _running(url, model, pid, metrics_path, api_key)
        with running or serving_model(model) as target:
            at_rest = run_cancel(plan, target, speech, json_file=json_file)
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
    json_file: JsonOption = None,
    api_key: KeyOption = None,
) -> None:
    """Send good, broken, slow, oversize and abandoned requests at once; check answers, books and leaks."""
    with explained():
        from stentor.bench.chaos import MAX_UPLOAD_BYTES, ChaosPlan, run_chaos
        from stentor.bench.servers import serving_fake

        running = _running(url, model, pid, metrics_path, api_key)
        if running is None:
            max_upload_bytes = MAX_UPLOAD_BYTES
        plan = ChaosPlan(requests, concurrency, seed, max_upload_bytes)
        with running or serving_fake(MAX_UPLOAD_BYTES) as target:
            passed = run_chaos(plan, target, speech, json_file=json_file)
    if not passed:
        raise typer.Exit(1)


@app.command()
def fairness(
    speech: SpeechOption,
    url: ServerOption = None,
    model: Annotated[str, typer.Option(help="To serve; with --url, its name there.")] = "tiny.en",
    long_s: Annotated[float, typer.Option(min=60, help="Seconds of the long audio.")] = 7200.0,
    clips: Annotated[int, typer.Option(min=1, help="Short clips, one a second.")] = 60,
    json_file: JsonOption = None,
    api_key: KeyOption = None,
) -> None:
    """Send a short clip a second beside a long file: does the file keep the clips waiting?"""
    with explained():
        from stentor.bench.fairness import FairnessPlan, run_fairness
        from stentor.bench.servers import serving_model

        running = _running(url, model, None, "", api_key)
        with running or serving_model(model) as target:
            run_fairness(FairnessPlan(long_s=long_s, clips=clips), target, speech, json_file=json_file)


def _running(
    url: str | None, model: str, pid: int | None, metrics_path: str, api_key: str | None
) -> AbstractContextManager[Target] | None:
    """The server that the options tell of; None when the bench shall start one."""
    from stentor.bench.calls import Target

    if url is None:
        return None
    return nullcontext(Target(url, model, pid, metrics_path or None, api_key))


def _levels(concurrency: str) -> tuple[int, ...]:
    try:
        levels = tuple(int(level) for level in concurrency.split(","))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise typer.BadParameter(f"{concurrency!r} is not a list such as 1,4,16", param_hint="--concurrency")
    return levels


@contextmanager
def explained() -> Iterator[None]:
    """Turn a missing extra, and a plan that cannot be carried out, into one line and exit code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_MODULES:
            raise
        typer.echo(f"{error.name} is not installed: pip install stentor[bench]", err=True)
        raise typer.Exit(2) from error
    except SetupError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(2) from error


@contextmanager
def _reported(json_file: Path | None) -> Iterator[Callable[[Measurement], None]]:
    """Store each measurement at once and print all at the end, also at one that Ctrl-C brings early.

    Exits with 1 when not one file was transcribed.
    """
    from stentor.bench.report import append_json, show

    measurements: list[Measurement] = []

    def report(measurement: Measurement) -> None:
        measurements.append(measurement)
        if json_file is not None:
            append_json(json_file, measurement)

    try:
        yield report
    finally:
        show(measurements, Console())
    if not any(measurement.level.transcribed for measurement in measurements):
        raise typer.Exit(1)
