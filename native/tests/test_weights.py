"""Both file formats, all their types, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

stentor_native = pytest.importorskip("stentor_native", reason="stentor-native is not built here")
WeightsError = stentor_native.WeightsError

WIDTH, INNER, MELS, VOCABULARY = 64, 256, 80, 100
CODES = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}


def tensors() -> dict[str, np.ndarray]:
    """The smallest Whisper: a layer on each side."""
    random = np.random.default_rng(2)

    def normal(*shape: int) -> np.ndarray:
        # Values that all types hold exactly, so that files of every type hold the same network.
        return (random.integers(-120, 121, shape) / 128).astype(np.float32)

    found = {"decoder/embeddings/weight": normal(VOCABULARY, WIDTH)}
    for side, positions in (("encoder", 1500), ("decoder", 448)):
        found[f"{side}/position_encodings/encodings"] = normal(positions, WIDTH)
        norms = [
            f"{side}/layer_norm",
            f"{side}/layer_0/self_attention/layer_norm",
            f"{side}/layer_0/ffn/layer_norm",
        ]
        dense = {"self_attention/linear_0": (3 * WIDTH, WIDTH), "self_attention/linear_1": (WIDTH, WIDTH)}
        if side == "decoder":
            norms.append("decoder/layer_0/attention/layer_norm")
            dense |= {"attention/linear_0": (WIDTH, WIDTH), "attention/linear_1": (2 * WIDTH, WIDTH)}
            dense |= {"attention/linear_2": (WIDTH, WIDTH)}
        dense |= {"ffn/linear_0": (INNER, WIDTH), "ffn/linear_1": (WIDTH, INNER)}
        for name in norms:
            found[f"{name}/gamma"], found[f"{name}/beta"] = normal(WIDTH), normal(WIDTH)
        for name, shape in dense.items():
            found[f"{side}/layer_0/{name}/weight"] = normal(*shape)
            found[f"{side}/layer_0/{name}/bias"] = normal(shape[0])
    found["decoder/layer_0/self_attention/linear_0/bias"][WIDTH : 2 * WIDTH] = 0
    found["encoder/layer_0/self_attention/linear_0/bias"][WIDTH : 2 * WIDTH] = 0
    found["decoder/layer_0/attention/linear_1/bias"][:WIDTH] = 0
    for number, channels in ((1, MELS), (2, WIDTH)):
        found[f"encoder/conv{number}/weight"], found[f"encoder/conv{number}/bias"] = (
            normal(WIDTH, channels, 3),
            normal(WIDTH),
        )
    return found


def string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def write_ctranslate2(
    folder: Path, stored: dict[str, np.ndarray], *, version: int = 6, spec: str = "WhisperSpec"
) -> None:
    """Source: OpenNMT/CTranslate2 python/ctranslate2/specs/model_spec.py, _serialize."""
    out = struct.pack("<I", version) + string(spec) + struct.pack("<II", 3, len(stored))
    for name, values in stored.items():
        out += string(name) + struct.pack("<B", values.ndim) + struct.pack(f"<{values.ndim}I", *values.shape)
        out += struct.pack("<BI", CODES[values.dtype.name], values.nbytes) + values.tobytes()
    out += struct.pack("<I", 1) + string("decoder/projection/weight") + string("decoder/embeddings/weight")
    (folder / "model.bin").write_bytes(out)


def converted(kind: str) -> dict[str, np.ndarray]:
    """The tensors as CTranslate2's converter stores them with this quantisation."""
    stored = {}
    for name, values in tensors().items():
        if kind in ("int8", "int16") and values.ndim == 2 and "position" not in name:
            stored[name] = np.rint(values * 128).astype(kind)
            stored[f"{name}_scale"] = (
                np.full(len(values), 128, np.float32) if kind == "int8" else np.float32(128)
            )
            stored[f"{name}_scale"] = np.asarray(stored[f"{name}_scale"])
        else:
            stored[name] = values.astype("float32" if kind.startswith("int") else kind)
    return stored


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int16"])
def test_ctranslate2_files_of_every_type(tmp_path: Path, kind: str) -> None:
    write_ctranslate2(tmp_path, converted(kind))
    weights = stentor_native.open_weights(tmp_path)
    assert (weights.mels, weights.width, weights.vocabulary) == (MELS, WIDTH, VOCABULARY)
    assert (weights.encoder_layers, weights.decoder_layers) == (1, 1)
    for name, values in tensors().items():
        assert weights.tensor(name).dtype == np.float32
        assert np.array_equal(weights.tensor(name), values), name


PLAIN = {"gamma": "weight", "beta": "bias"}
LAYER = {
    "self_attention/layer_norm": ["self_attn_layer_norm"],
    "self_attention/linear_0": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention/linear_1": ["self_attn.out_proj"],
    "attention/layer_norm": ["encoder_attn_layer_norm"],
    "attention/linear_0": ["encoder_attn.q_proj"],
    "attention/linear_1": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "attention/linear_2": ["encoder_attn.out_proj"],
    "ffn/layer_norm": ["final_layer_norm"],
    "ffn/linear_0": ["fc1"],
    "ffn/linear_1": ["fc2"],
}
OUTER = {"position_encodings/encodings": "embed_positions.weight", "embeddings/weight": "embed_tokens.weight"}


def write_safetensors(folder: Path, kind: str) -> None:
    """The same network as transformers saves it: q, k and v apart, and no bias for k."""
    stored: dict[str, np.ndarray] = {}
    for name, values in tensors().items():
        side, _, rest = name.partition("/")
        if rest.startswith("layer_0/"):
            ours, _, leaf = rest.removeprefix("layer_0/").rpartition("/")
            parts = LAYER[ours]
            for part, piece in zip(parts, np.split(values, len(parts)), strict=True):
                if not (part.endswith("k_proj") and leaf == "bias"):
                    stored[f"model.{side}.layers.0.{part}.{PLAIN.get(leaf, leaf)}"] = piece
        else:
            leaf = OUTER.get(rest) or rest.replace("gamma", "weight").replace("beta", "bias").replace(
                "/", "."
            )
            stored[f"model.{side}.{leaf}"] = values
    header, data = {}, b""
    for name, values in stored.items():
        raw = (
            (values.view(np.uint32) >> 16).astype("<u2")
            if kind == "BF16"
            else values.astype({"F32": "<f4", "F16": "<f2"}[kind])
        )
        header[name] = {
            "dtype": kind,
            "shape": values.shape,
            "data_offsets": [len(data), len(data) + raw.nbytes],
        }
        data += raw.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_hugging_face_files_of_every_type(tmp_path: Path, kind: str) -> None:
    write_safetensors(tmp_path, kind)
    weights = stentor_native.open_weights(tmp_path)
    assert (weights.encoder_layers, weights.decoder_layers) == (1, 1)
    for name, values in tensors().items():
        assert np.array_equal(weights.tensor(name), values), name


def test_what_cannot_be_computed_is_refused_with_its_reason(tmp_path: Path) -> None:
    def refused(match: str, stored: dict[str, np.ndarray] | None = None, **options) -> None:
        write_ctranslate2(tmp_path, converted("float32") | (stored or {}), **options)
        with pytest.raises(WeightsError, match=match):
            stentor_native.open_weights(tmp_path)

    refused("version 7 is unknown", version=7)
    refused("TransformerSpec, not Whisper", spec="TransformerSpec")
    refused("activation is 0", {"decoder/activation": np.asarray(0, np.int8)})
    refused("4 heads for a width of 64", {"encoder/num_heads": np.asarray(4, np.int16)})
    refused(
        "448 decoder positions", {"decoder/position_encodings/encodings": np.zeros((224, WIDTH), np.float32)}
    )


def test_int8_without_a_scale_is_refused(tmp_path: Path) -> None:
    stored = converted("int8")
    del stored["encoder/layer_0/ffn/linear_0/weight_scale"]
    write_ctranslate2(tmp_path, stored)
    weights = stentor_native.open_weights(tmp_path)
    with pytest.raises(WeightsError, match="no scale"):
        weights.tensor("encoder/layer_0/ffn/linear_0/weight")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    stored = converted("float32")
    del stored["decoder/layer_0/attention/linear_2/weight"]
    write_ctranslate2(tmp_path, stored)
    with pytest.raises(WeightsError, match="attention/linear_2/weight"):
        stentor_native.open_weights(tmp_path).tensor("decoder/layer_0/attention/linear_2/weight")


def read_all(folder: Path) -> None:
    weights = stentor_native.open_weights(folder)
    for name in tensors():
        weights.tensor(name)


@pytest.mark.parametrize("length", [0, 3, 40, 5000, -7])
def test_files_that_end_early_are_refused(tmp_path: Path, length: int) -> None:
    for write, name in ((write_ctranslate2, "model.bin"), (write_safetensors, "model.safetensors")):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, converted("float32") if name == "model.bin" else "F32")
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:length])
        with pytest.raises(WeightsError, match=r"damaged|empty|ends inside|unknown"):
            read_all(folder)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="neither"):
        stentor_native.open_weights(tmp_path)
