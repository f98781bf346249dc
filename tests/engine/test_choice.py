"""The engine that a machine gets, and what is said about it."""

from __future__ import annotations

import sys

import pytest
from structlog.testing import capture_logs

from stentor.engine.choice import load_engine
from stentor.engine.ct2 import CTranslate2Engine
from stentor.engine.native import NativeEngine
from stentor.errors import ModelError
from stentor.models import PACKAGED, resolve
from support.native import skip_unless_native


async def test_auto_is_native_where_it_runs() -> None:
    skip_unless_native()
    engine = load_engine(resolve("tiny.en"), slots=1, device="cpu", max_batch=2)
    assert isinstance(engine, NativeEngine)
    assert engine.info.slots == 2
    assert engine.info.digest == PACKAGED["tiny.en"].digest
    await engine.close()


async def test_without_stentor_native_it_is_ctranslate2_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "stentor_native", None)
    with capture_logs() as logs:
        engine = load_engine(resolve("tiny.en"), slots=1, device="cpu", max_batch=2)
    assert isinstance(engine, CTranslate2Engine)
    assert [entry["why_not_native"] for entry in logs if "why_not_native" in entry] == [
        "stentor-native is not installed (`make setup` builds it where there is a C++ compiler)"
    ]
    await engine.close()


def test_an_engine_that_was_asked_for_and_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stentor_native", None)
    with pytest.raises(ModelError, match="not installed"):
        load_engine(resolve("tiny.en"), name="native", slots=1, device="cpu", max_batch=2)


async def test_ctranslate2_can_be_asked_for() -> None:
    engine = load_engine(resolve("tiny.en"), name="ctranslate2", slots=1, device="cpu", max_batch=2)
    assert isinstance(engine, CTranslate2Engine)
    assert engine.info.digest == PACKAGED["tiny.en"].digest
    await engine.close()


async def test_native_computes_in_what_was_asked_for() -> None:
    skip_unless_native()
    plain = load_engine(
        resolve("tiny.en"), name="native", slots=1, device="cpu", max_batch=1, compute_type="bfloat16"
    )
    assert isinstance(plain, NativeEngine)
    assert plain.compute_type == "bfloat16"
    await plain.close()


async def test_what_native_does_not_compute_in_ctranslate2_does() -> None:
    skip_unless_native()
    asked = {"slots": 1, "device": "cpu", "max_batch": 1, "compute_type": "float32"}
    with capture_logs() as logs:
        engine = load_engine(resolve("tiny.en"), **asked)  # type: ignore[arg-type]
    assert isinstance(engine, CTranslate2Engine)
    assert "not in float32" in next(entry["why_not_native"] for entry in logs if "why_not_native" in entry)
    await engine.close()
    with pytest.raises(ModelError, match="bfloat16 or int8, not in float32"):
        load_engine(resolve("tiny.en"), name="native", **asked)  # type: ignore[arg-type]
