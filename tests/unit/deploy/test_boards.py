"""The Grafana board and the alerts ask for series that exist, by labels that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml
from prometheus_client import generate_latest

from stentor.api.services import make_services
from stentor.config import Settings
from stentor.engine.fake import FakeEngine
from stentor.preprocess import PreprocessPool

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMETHEUS_LABELS = {"instance", "job", "le"}
STAND_INS = {"$__rate_interval": "5m", "$instance": ".*"}
"""What Grafana fills in."""


def board_queries() -> list[str]:
    board = json.loads((DEPLOY / "grafana" / "stentor.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    for variable, stand_in in STAND_INS.items():
        queries = [query.replace(variable, stand_in) for query in queries]
    return queries


def alert_queries() -> list[str]:
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    return [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Every series a server exports, with its labels."""
    pool = PreprocessPool(1)
    metrics = make_services(Settings(), FakeEngine(), pool).metrics
    pool.close()
    names = {series.name: set(series.labels) for series in metrics.series}
    for series in metrics.series:
        if series.kind == "histogram":
            del names[series.name]
            names |= {f"{series.name}_{part}": set(series.labels) for part in ("bucket", "sum", "count")}
    text = generate_latest(metrics.registry).decode()
    return names | {name: set() for name in re.findall(r"^(process_\w+)", text, re.MULTILINE)}


def selectors(node: object) -> Iterator[promql_parser.VectorSelector]:
    """All selectors of a parsed query."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for child in ("expr", "lhs", "rhs", "vector_selector", "vs", "param"):
        yield from selectors_of(getattr(node, child, None))
    for argument in getattr(node, "args", None) or []:
        yield from selectors_of(argument)


def selectors_of(node: object) -> Iterator[promql_parser.VectorSelector]:
    if node is not None:
        yield from selectors(node)


@pytest.mark.parametrize("query", [*board_queries(), *alert_queries()])
def test_each_query_finds_its_series(exported: dict[str, set[str]], query: str) -> None:
    found = list(selectors(promql_parser.parse(query)))
    mentioned = set(re.findall(r"\b(?:stentor|process)_\w+", query))
    assert {selector.name for selector in found} == mentioned, "the walk over the query missed one"
    for selector in found:
        assert selector.name in exported
        used = {matcher.name for matcher in selector.matchers.matchers}
        assert used <= exported[selector.name] | PROMETHEUS_LABELS
    grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
    assert grouped <= PROMETHEUS_LABELS.union(*(exported[name] for name in mentioned))


def test_the_board_shows_every_series(exported: dict[str, set[str]]) -> None:
    shown = set(re.findall(r"stentor_\w+", " ".join(board_queries())))
    stems = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in exported if name.startswith("stentor")
    } == stems
