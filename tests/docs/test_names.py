"""Variables, metrics, commands, options and fields that the documents name exist."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from typer.exceptions import TyperException
from typer.main import get_command

from stentor.api.form import TranscriptionForm
from stentor.api.reference import metrics_table
from stentor.cli.main import app
from stentor.config import Settings
from support.documents import DOCS, DOCUMENTS, ROOT, commands, fences, named

SETTINGS = {f"STENTOR_{name.upper()}" for name in Settings.model_fields}
OTHER_VARIABLES = {"STENTOR_BENCH_API_KEY", "STENTOR_FUZZ_EXAMPLES"}
"""The benches' and the tests' own."""

NOT_METRICS = {"stentor_native"}


def every_metric() -> set[str]:
    """All series by the names that queries use."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", metrics_table(), re.MULTILINE)
    parts = {
        f"{name}_{part}" for name, kind in rows if kind == "histogram" for part in ("bucket", "sum", "count")
    }
    return {name for name, _ in rows} | parts


METRICS = every_metric()
COMMAND_LINE: Any = get_command(app)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def wrong(words: list[str]) -> str | None:
    """What is wrong with a command, as far as it is ours."""
    program, *rest = words
    if program == "make":
        return next((f"no target {word}" for word in rest if word.islower() and word not in TARGETS), None)
    if program == "curl" and any("/v1/audio/" in word for word in rest):
        fields = [value for option, value in pairwise(rest) if option in ("-F", "--form")]
        names = {re.split(r"[=\[]", field)[0] for field in fields}
        unknown = names - {"file", *TranscriptionForm.model_fields}
        return f"no field {', '.join(unknown)}" if unknown else None
    if program.rpartition("/")[2] != "stentor":
        return None
    command = COMMAND_LINE
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"no command {rest[0]}"
        command = command.commands[rest.pop(0)]
    context = command.context_class(command, info_name=command.name)
    try:
        # Brackets are what may be left out.
        _, left, _ = command.make_parser(context).parse_args([word.strip("[]") for word in rest])
    except TyperException as error:
        return str(error)
    return f"too many words: {left}" if left else None


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_variables_are_settings(document: Path) -> None:
    told = set(re.findall(r"STENTOR_[A-Z0-9_]*[A-Z0-9]", document.read_text(encoding="utf-8")))
    assert told <= SETTINGS | OTHER_VARIABLES


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_metrics_are_counted(document: Path) -> None:
    told = set(re.findall(r"\bstentor_\w+", document.read_text(encoding="utf-8")))
    assert told <= METRICS | NOT_METRICS
    for query in fences(document, "promql"):
        promql_parser.parse(query)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_commands_are_understood(document: Path) -> None:
    assert [(words, found) for words in commands(document) if (found := wrong(words))] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("stentor serve --port 80 --max-batch 8", None),
        (".venv/bin/stentor transcribe one.mp3 two.mp3 --format srt", None),
        ("stentor", None),
        ("stentor sing", "no command sing"),
        ("stentor bench lode", "no command lode"),
        ("stentor serve --prot 80", "--prot"),
        ("stentor serve --port", "--port"),
        ("make docs", None),
        ("make haste", "no target haste"),
        ("curl http://127.0.0.1:8000/v1/audio/transcriptions -F file=@a.mp3 -F 'include[]=logprobs'", None),
        ("curl http://127.0.0.1:8000/v1/audio/transcriptions -F hotwords=Stentor", "no field hotwords"),
    ],
)
def test_a_wrong_command_is_found(tmp_path: Path, line: str, expected: str | None) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"```sh\nPYTHONUNBUFFERED=1 {line}  # as told\n```\n", encoding="utf-8")
    (words,) = commands(document)
    found = wrong(words)
    assert found == expected if expected is None else expected in str(found)


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    told = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert alerts == set(re.findall(r"^\| `(Stentor\w+)` \|", told, re.MULTILINE))
