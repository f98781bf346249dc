"""`stentor bench`: a load for a server, the same files through a peer, and the preprocessing by itself.

httpx, jiwer, matplotlib and psutil come with an extra, so everything that needs them is imported when a
command runs: the rest of the command line works without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from stentor.errors import SetupError

if TYPE_CHECKING:
    from stentor.bench.report import Measurement

EXTRA_MODULES = frozenset({"httpx", "jiwer", "matplotlib", "psutil", "whisper_normalizer"})
"""What `pip install stentor[bench]` brings."""

app = typer.Typer(no_args_is_help=True, help="Measure a server: speed, latency, errors and word error rate.")

ManifestOption = Annotated[
    Path, typer.Option(exists=True, help="A manifest.jsonl, or a directory of audio files (no references).")
]
LanguageOption = Annotated[str | None, typer.Option(help="Only files in this language (a code).")]
PrefixOption = Annotated[str, typer.Option(help="Only files whose path in the manifest begins so.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Only so many files, from the start.")]
SendLanguageOption = Annotated[bool, typer.Option(help="Tell the language, or let it be detected.")]
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
    api_key: Annotated[str | None, typer.Option(envvar="STENTOR_BENCH_API_KEY", show_envvar=True)] = None,
) -> None:
    """Send every file once at each level of concurrency."""
    levels = _levels(concurrency)
    with _explained():
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
    with _explained():
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
    with _explained():
        from stentor.bench.plan import FULL, QUICK
        from stentor.bench.preprocess import run_parts

        plan = QUICK if quick else FULL
        plan = replace(plan, repeats=repeats or plan.repeats, uploads=uploads, engine=engine, model=model)
        answered = run_parts(plan, part.split(","), speech, json_file=json_file, plot=plot)
    if not answered:
        raise typer.Exit(1)


def _levels(concurrency: str) -> tuple[int, ...]:
    try:
        levels = tuple(int(level) for level in concurrency.split(","))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise typer.BadParameter(f"{concurrency!r} is not a list such as 1,4,16", param_hint="--concurrency")
    return levels


@contextmanager
def _explained() -> Iterator[None]:
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
