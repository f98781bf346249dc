"""Settings come from the environment, are checked, and the document shows all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from stentor.config import Settings, usable_cpus
from stentor.errors import SetupError


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


@pytest.mark.parametrize("written", ["one,two", " one , two ,", '["one", "two"]'])
def test_lists_are_written_with_commas_or_as_json(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("STENTOR_SERVED_MODEL_NAMES", written)
    assert Settings().served_model_names == ("one", "two")


def test_engine_arguments_are_a_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENTOR_VLLM_ARGS", '{"dtype": "float32", "max_num_seqs": 8}')
    assert Settings.load().vllm_args == {"dtype": "float32", "max_num_seqs": 8}
    for nonsense in ("{dtype: float32}", "[]", "8"):
        monkeypatch.setenv("STENTOR_VLLM_ARGS", nonsense)
        with pytest.raises(SetupError, match="STENTOR_VLLM_ARGS"):
            Settings.load()


def test_keys_come_from_the_environment_and_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Settings().known_api_keys == frozenset()
    keys = tmp_path / "keys"
    keys.write_text("# the batch team\nsk-two\n\n  sk-three#3  \n", encoding="utf-8")
    monkeypatch.setenv("STENTOR_API_KEYS", "sk-one")
    monkeypatch.setenv("STENTOR_API_KEYS_FILE", str(keys))
    settings = Settings()
    assert settings.known_api_keys == {"sk-one", "sk-two", "sk-three#3"}
    assert "sk-" not in f"{settings} {settings!r}"


@pytest.mark.parametrize("written", ["", ",", "[]", "sk one", "sk-ö", '["sk-secret"'])
def test_keys_that_are_none_do_not_open_the_server(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("STENTOR_API_KEYS", written)
    with pytest.raises(SetupError, match="STENTOR_API_KEYS") as refused:
        Settings.load()
    assert "secret" not in refused.value.message


@pytest.mark.parametrize("content", [None, "", "# none yet\n", "two words\n"])
def test_a_file_without_keys_does_not_open_the_server(tmp_path: Path, content: str | None) -> None:
    keys = tmp_path / "keys"
    if content is not None:
        keys.write_text(content, encoding="utf-8")
    with pytest.raises(SetupError, match="STENTOR_API_KEYS_FILE"):
        Settings.load(api_keys_file=keys)


@pytest.mark.parametrize(("quota", "cpus"), [("100000 100000", 1), ("250000 100000", 2), ("50000 100000", 1)])
def test_a_containers_share_bounds_the_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cpus: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(f"{quota}\n", encoding="ascii")
    assert usable_cpus(tmp_path / "cpu.max") == cpus


@pytest.mark.parametrize("quota", ["max 100000\n", None])
def test_without_a_share_it_is_what_the_process_may_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota, encoding="ascii")
    assert usable_cpus(tmp_path / "cpu.max") == 8
