"""The contract, asked by OpenAI's clients for Python and Node, and by curl."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from conformance.cases import AUDIO_S, CASES, Answer, Case, Refusal, spoken
from conformance.clients import no_node, with_curl, with_node, with_the_async_client, with_the_client
from conformance.page import page
from stentor.engine.fake import FakeEngine
from support.audio import bursts, write
from support.server import Served, serving

Ask = Callable[[str, Case, Path], Awaitable[Answer | Refusal]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(FakeEngine(spoken, language="de")) as served:
        yield served


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("audio")
    (folder / "garbage.mp3").write_bytes(b"These are no sounds. " * 100)
    return {"speech": write(folder / "speech.flac", bursts(AUDIO_S)), "garbage": folder / "garbage.mp3"}


def judge(case: Case, answer: Answer | Refusal) -> None:
    if isinstance(case.check, Refusal):
        assert answer == case.check
    else:
        assert not isinstance(answer, Refusal), answer
        case.check(answer)


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # translations, in OpenAI's client
@pytest.mark.parametrize("ask", [with_the_async_client, with_the_client, with_curl])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name[:80])
async def test_a_case(served: Served, audio: dict[str, Path], case: Case, ask: Ask) -> None:
    judge(case, await ask(served.url, case, audio[case.audio]))


async def test_all_cases_with_node(served: Served, audio: dict[str, Path]) -> None:
    if reason := no_node():
        pytest.skip(reason)
    for case, answer in zip(CASES, await with_node(served.url, CASES, audio), strict=True):
        try:
            judge(case, answer)
        except AssertionError as error:
            error.add_note(case.name)
            raise


def test_the_page_is_the_cases() -> None:
    document = Path(__file__).parents[2] / "docs" / "conformance.md"
    assert document.read_text(encoding="utf-8") == page(), "run `make fix`"
