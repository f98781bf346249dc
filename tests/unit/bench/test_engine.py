"""What `bench engine` measures, counted by hand; the measuring itself is tried on two chunks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from stentor.bench.engine import Cost, EnginePlan, cut_chunks, run_engine
from stentor.bench.records import Record
from stentor.errors import SetupError
from stentor.models import resolve
from stentor.types import SAMPLE_RATE
from support.native import skip_unless_native


@dataclass(frozen=True)
class TinyEn:
    """The shape of Whisper tiny.en."""

    mels: int = 80
    width: int = 384
    encoder_layers: int = 4
    decoder_layers: int = 4
    vocabulary: int = 51864
    heads: int = 6


def test_the_work_of_tiny_en() -> None:
    cost = Cost.of(TinyEn())
    # 1500 frames through 4 layers of 12 width^2 and two products of attention, and two convolutions.
    assert cost.encoder_operations == pytest.approx(36.9e9, rel=0.01)
    # The 40 MB of the vocabulary and the layers; the audio of a row is 1.15 MB in each of 4 layers.
    assert cost.step_bytes(0) == pytest.approx(58.7e6, rel=0.01)
    assert cost.step_bytes(1) - cost.step_bytes(0) == 4 * 1500 * 384 * 2


def test_chunks_are_those_of_the_server_and_there_must_be_enough(two_cities: Path) -> None:
    chunks = cut_chunks([two_cities, two_cities], 3)
    assert len(chunks) == 3
    assert all(0 < len(chunk) <= 30 * SAMPLE_RATE for chunk in chunks)
    with pytest.raises(SetupError, match="hold 2 chunks, not 3"):
        cut_chunks([two_cities], 3)


def test_an_unknown_part_is_refused(two_cities: Path) -> None:
    plan = EnginePlan(resolve("tiny.en"), cut_chunks([two_cities], 2), "en", (1,), 2)
    with pytest.raises(SetupError, match="sped"):
        run_engine(plan, ["sped"], lambda record: None)


def test_limits_are_measured(two_cities: Path) -> None:
    skip_unless_native()
    plan = EnginePlan(resolve("tiny.en"), cut_chunks([two_cities], 2), "en", (2,), 2)
    records: list[Record] = []
    run_engine(plan, ["limits"], records.append)
    assert [record.part for record in records] == ["limits", "limits"]
    assert all(isinstance(ms := record.figures["ms"], float) and ms > 0 for record in records)
