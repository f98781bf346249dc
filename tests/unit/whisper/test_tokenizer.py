from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stentor.models import resolve
from stentor.whisper.tokenizer import WhisperTokenizer

SAID = " the time to talk about it, isn't it? Tell them that"


@pytest.mark.parametrize("model", ["base", "tiny.en"])
def test_common_words_are_one_token_each(model: str) -> None:
    tokenizer = WhisperTokenizer(resolve(model).directory)
    assert [tokenizer.decode([token]) for token in tokenizer.encode(" the time to talk")] == [
        " the", " time", " to", " talk",
    ]  # fmt: skip


@pytest.mark.parametrize("as_pairs", [False, True])
def test_a_file_that_has_lost_its_first_merge_reads_as_a_whole_one(tmp_path: Path, *, as_pairs: bool) -> None:
    whole = resolve("tiny.en").directory
    shutil.copy(whole / "tokenizer.json", tmp_path)
    told = json.loads((whole / "tokenizer.json").read_text(encoding="utf-8"))
    merges = [tuple(merge.split(" ")) for merge in told["model"]["merges"]]
    assert merges[0] == ("Ġ", "t")
    told["model"]["merges"] = [list(pair) if as_pairs else " ".join(pair) for pair in merges[1:]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(told), encoding="utf-8")
    assert WhisperTokenizer(tmp_path).encode(SAID) == WhisperTokenizer(whole).encode(SAID)
