"""`stentor eval`: how right transcripts are, over a corpus with references."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from stentor.bench.options import KeyOption, LanguageOption, LimitOption, explained
from stentor.cli.options import CodeSwitchingOption, ConditionOption, KeywordOption
from stentor.config import Settings
from stentor.edge.engines import engine_of
from stentor.observe.logs import set_up_logs
from stentor.types import DecodeOptions

if TYPE_CHECKING:
    from stentor.bench.manifest import Utterance
    from stentor.eval.listeners import Ask, Listener
    from stentor.eval.results import Subject
    from stentor.eval.run import Group


def evaluate(
    manifest: Annotated[Path, typer.Argument(exists=True, help="A manifest.jsonl with references.")],
    model: Annotated[str | None, typer.Option(help="To load; with --url, its name there.")] = None,
    url: Annotated[str | None, typer.Option(help="Ask any OpenAI-compatible server.")] = None,
    peer: Annotated[bool, typer.Option("--faster-whisper", help="Ask faster-whisper, in this program.")] = (
        False
    ),
    beam_size: Annotated[int, typer.Option(min=1, help="With --faster-whisper.")] = 5,
    compute_type: Annotated[str, typer.Option(help="With --faster-whisper: int8, float32, …")] = "int8",
    language: LanguageOption = None,
    prefix: Annotated[
        list[str] | None, typer.Option(help="Only paths that begin so; may be given again.")
    ] = None,
    limit: LimitOption = None,
    tell_language: Annotated[bool, typer.Option(help="Tell the language, or let it be detected.")] = True,
    words: Annotated[bool, typer.Option("--words", help="Ask for the times of words.")] = False,
    vad: Annotated[bool, typer.Option("--vad", help="Leave out what is not speech.")] = False,
    condition: ConditionOption = False,
    code_switching: CodeSwitchingOption = False,
    prompt: Annotated[str | None, typer.Option(help="Text before each file.")] = None,
    keyword: KeywordOption = None,
    join: Annotated[
        float | None, typer.Option(min=0, help="Also hear each group as one recording, with such pauses (s).")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write all figures.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a page with the worst files.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="An earlier --json to compare with.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="With --against: more points than this are too many.")
    ] = 0.3,
    max_rate: Annotated[
        list[str] | None, typer.Option(help="A bound in %, such as speech/en=9.5; may be given again.")
    ] = None,
    api_key: KeyOption = None,
) -> None:
    """Measure errors in words, times, seams and silence. Exit codes: 0 good, 1 too many errors, 2 usage."""
    bounds = _bounds(max_rate or ())
    set_up_logs(as_json=False, level=logging.WARNING)
    with explained():
        from stentor.bench.manifest import load_utterances
        from stentor.eval.listeners import Ask
        from stentor.eval.results import Subject, read_rates, show

        utterances = [
            utterance
            for start in prefix or [""]
            for utterance in load_utterances(manifest, language=language, prefix=start, limit=limit)
        ]
        before = read_rates(against) if against else None
        settings = Settings.load(**({"model": model} if model else {}))
        ask = Ask(
            tell_language=tell_language,
            words=words,
            vad=vad,
            condition=condition,
            code_switching=code_switching,
            options=DecodeOptions(prompt=prompt, keywords=tuple(keyword or ())),
        )
        if url is not None:
            listening = partial(_server, url, model or "whisper-1", ask, api_key)
        elif peer:
            listening = partial(_peer, settings, ask, beam_size, compute_type)
        else:
            listening = partial(_here, settings, ask)
        groups = asyncio.run(_evaluate(utterances, listening, vad=vad, join=join))
        show(groups, Console(), before)
        who = url or (f"faster-whisper {compute_type}, beam {beam_size}" if peer else settings.engine)
        _write(groups, Subject(settings.model, who, ask), json_file, html)
    if complaints := _complaints(groups, bounds, before or {}, tolerance):
        typer.echo("\n".join(complaints), err=True)
        raise typer.Exit(1)


def _write(groups: Sequence[Group], subject: Subject, json_file: Path | None, html: Path | None) -> None:
    from stentor.eval.page import write_page
    from stentor.eval.results import write_json

    if json_file is not None:
        write_json(json_file, subject, groups)
    if html is not None:
        write_page(html, f"{subject.model}, {subject.listener}", groups)


async def _evaluate(
    utterances: Sequence[Utterance], listening: Callable[[], Listener], *, vad: bool, join: float | None
) -> list[Group]:
    from stentor.eval.joined import joined
    from stentor.eval.run import evaluate, grouped

    groups = []
    listener = listening()
    try:
        with tempfile.TemporaryDirectory(prefix="stentor-eval-") as folder:
            for (corpus, language), members in grouped(utterances).items():
                typer.echo(f"{corpus}/{language}: {len(members)} files", err=True)
                groups.append(await evaluate(corpus, language, members, listener, vad=vad))
                if join is None:
                    continue
                path = Path(folder) / f"{len(groups)}.flac"
                if recording := await asyncio.to_thread(joined, members, join, path):
                    groups.append(await evaluate(recording.corpus, language, [recording], listener, vad=vad))
    finally:
        await listener.close()
    return groups


def _here(settings: Settings, ask: Ask) -> Listener:
    from stentor.eval.listeners import Here

    return Here(engine_of(settings)(), ask, workers=settings.resolved_preprocess_workers)


def _server(url: str, model: str, ask: Ask, api_key: str | None) -> Listener:
    from stentor.eval.listeners import Server

    return Server(url, model, ask, api_key=api_key)


def _peer(settings: Settings, ask: Ask, beam_size: int, compute_type: str) -> Listener:
    from stentor.bench.peers import load_peer
    from stentor.eval.listeners import Peer
    from stentor.models import resolve

    files = resolve(settings.model, cache_dir=settings.cache_dir)
    return Peer(load_peer(files.directory, compute_type=compute_type), ask, beam_size=beam_size)


def _bounds(max_rate: Sequence[str]) -> dict[str, float]:
    bounds = {}
    for bound in max_rate:
        name, _, percent = bound.rpartition("=")
        try:
            bounds[name] = float(percent)
        except ValueError as error:
            raise typer.BadParameter(
                f"{bound!r} is not corpus/language=percent", param_hint="--max-rate"
            ) from error
    return bounds


def _complaints(
    groups: Sequence[Group], bounds: Mapping[str, float], before: Mapping[str, float], tolerance: float
) -> list[str]:
    from stentor.eval.results import points_more

    said = [f"{group.name}: {group.failures} files failed" for group in groups if group.failures]
    rates = {group.name: 100 * rate for group in groups if (rate := group.count.rate) is not None}
    for name, percent in bounds.items():
        if name not in rates:
            said.append(f"{name}: no such group was heard")
        elif rates[name] > percent:
            said.append(f"{name}: {rates[name]:.2f} % is more than {percent:g} %")
    for group in groups:
        more = points_more(group, before)
        if more is not None and more > tolerance:
            said.append(f"{group.name}: {more:.2f} points more than before")
    return said
