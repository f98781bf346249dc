"""Settings come from the environment, are checked, and the document shows all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from stentor.config import Settings


def test_the_document_shows_every_setting() -> None:
    document = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert document.read_text(encoding="utf-8").endswith(Settings.markdown_table()), "run `make fix`"


def test_the_environment_sets_and_arguments_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENTOR_PORT", "9000")
    monkeypatch.setenv("STENTOR_MODEL", "tiny.en")
    assert Settings().port == 9000
    assert Settings(port=9001).port == 9001
    assert Settings(port=9001).model == "tiny.en"


@pytest.mark.parametrize(("name", "value"), [("PORT", "99999"), ("MAX_AUDIO_S", "-1"), ("ENGINE_SLOTS", "0")])
def test_nonsense_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"STENTOR_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_defaults_follow_the_machine() -> None:
    settings = Settings()
    assert 1 <= settings.resolved_preprocess_workers <= 2
    assert settings.resolved_engine_slots >= 1
