"""A model in CTranslate2's form becomes one in Hugging Face's."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from stentor.errors import ModelError
from stentor.models import resolve
from stentor.whisper.convert import convert
from stentor.whisper.stored import Tensor, as_float16, read_ctranslate2, write_safetensors
from stentor.whisper.tokenizer import WhisperTokenizer


@pytest.fixture(scope="module", params=["tiny.en", "base"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model as it is packaged, and converted."""
    source = resolve(request.param, cache_dir=tmp_path_factory.mktemp("cache")).directory
    target = tmp_path_factory.mktemp("converted")
    convert(source, target)
    return source, target


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of float16 alone, by another reader than ours: there is none in the project."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert (8 + length) % 8 == 0
    body = data[8 + length :]
    return {
        name: np.frombuffer(body[slice(*told["data_offsets"])], "<f2").reshape(told["shape"])
        for name, told in header.items()
    }


def test_the_weights_have_the_other_names_and_the_same_values(both: tuple[Path, Path]) -> None:
    source, target = both
    before, after = read_ctranslate2(source / "model.bin"), read(target / "model.safetensors")
    config = json.loads((target / "config.json").read_text())
    joined = [after[f"model.decoder.layers.1.self_attn.{part}_proj.weight"] for part in "qkv"]
    stored = as_float16(before, "decoder/layer_1/self_attention/linear_0/weight")
    assert np.array_equal(np.concatenate(joined), stored)
    assert after["model.decoder.embed_tokens.weight"].shape == (config["vocab_size"], config["d_model"])
    assert not any("k_proj.bias" in name or name.startswith("proj_out") for name in after)
    per_layer = {"encoder": 15, "decoder": 24}
    outside = {"encoder": 4 + 1 + 2, "decoder": 2 + 2}  # convolutions, positions, tokens, the last norm
    expected = sum(per_layer[side] * config[f"{side}_layers"] + outside[side] for side in per_layer)
    assert len(after) == expected


def test_the_tokens_are_the_same_and_all_there(both: tuple[Path, Path]) -> None:
    source, target = both
    before, after = WhisperTokenizer(source), WhisperTokenizer(target)
    text = " It was the best of times, it was the worst of times."
    assert after.encode(text) == before.encode(text)
    assert after.special("<|30.00|>") == before.timestamp_begin + 1500


def test_the_other_files_say_what_kind_of_model_it_is(both: tuple[Path, Path]) -> None:
    source, target = both
    told = json.loads((source / "config.json").read_text())
    generation = json.loads((target / "generation_config.json").read_text())
    assert generation["suppress_tokens"] == told["suppress_ids"]
    assert generation["is_multilingual"] == ("lang_to_id" in generation)
    assert generation.get("lang_to_id", {"<|en|>": 0}).keys() >= {"<|en|>"}
    assert json.loads((target / "preprocessor_config.json").read_text())["feature_size"] == 80


def stored(path: Path, tensors: Mapping[str, Tensor], *, spec: str = "WhisperSpec") -> Path:
    """A small model.bin."""
    codes = {"float32": 0, "int8": 1, "int16": 2, "float16": 4, "uint16": 5}

    def text(value: str) -> bytes:
        data = value.encode() + b"\0"
        return struct.pack("<H", len(data)) + data

    data = struct.pack("<I", 6) + text(spec) + struct.pack("<II", 3, len(tensors))
    for name, values in tensors.items():
        data += text(name) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)
        data += struct.pack("<BI", codes[values.dtype.name], values.nbytes) + values.tobytes()
    path.write_bytes(data + struct.pack("<I", 0))
    return path


def test_integers_are_turned_back_by_their_scales(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "model.bin",
        {
            "a": np.array([[10, -20], [30, 40]], np.int8),
            "a_scale": np.array([10, 20], np.float32),
            "b": np.array([512], np.int16),
            "c": np.array([0x3FC0], np.uint16),  # 1.5 in bfloat16
        },
    )
    tensors = read_ctranslate2(path)
    assert as_float16(tensors, "a").tolist() == [[1, -2], [1.5, 2]]
    assert as_float16(tensors, "b").tolist() == [0.5]
    assert as_float16(tensors, "c").tolist() == [1.5]
    write_safetensors(tmp_path / "out", {"a": as_float16(tensors, "a")})
    assert read(tmp_path / "out")["a"].tolist() == [[1, -2], [1.5, 2]]


def test_damage_is_a_model_error(tmp_path: Path) -> None:
    path = stored(tmp_path / "model.bin", {"a": np.zeros(4, np.float32)}, spec="TransformerSpec")
    with pytest.raises(ModelError, match="TransformerSpec, and not Whisper"):
        read_ctranslate2(path)
    path = stored(tmp_path / "model.bin", {"a": np.zeros(4, np.float32)})
    path.write_bytes(path.read_bytes()[:-12])
    for data in (path.read_bytes(), b""):
        path.write_bytes(data)
        with pytest.raises(ModelError, match="damaged"):
            read_ctranslate2(path)
