"""docs/conformance.md, written from the cases: `python tests/conformance/page.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.cases import CASES, Case

HEAD = """# Conformance

OpenAI's audio API, case by case. Each row is a test (`tests/conformance`) with four callers: OpenAI's client
for Python, synchronous and asynchronous, with a strict look at the types it promises; its client for Node;
and `curl`. The last row of each table, and streams of `verbose_json`, are ours: OpenAI's API does not
have them. `make fix` writes this page.

"""

LONGEST = 110


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(_table(endpoint) for endpoint in ("transcriptions", "translations"))


def _table(endpoint: str) -> str:
    rows = [f"## POST /v1/audio/{endpoint}\n", "| about | sent | answer |", "|---|---|---|"]
    rows += [f"| {case.topic} | {_sent(case)} | {case.then} |" for case in CASES if case.endpoint == endpoint]
    return "\n".join(rows) + "\n"


def _sent(case: Case) -> str:
    if case.audio == "garbage":
        return "a file that is no audio"
    told = [f"`{name}={_short(value)}`" for name, value in {**case.sends, **case.own}.items()]
    return " ".join(told) or "nothing more"


def _short(value: object) -> str:
    text = str(value).replace("|", "\\|")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
