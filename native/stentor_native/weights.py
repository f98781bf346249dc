"""Whisper's weights as float32 tensors under CTranslate2's names, from either of the two common files.

`model.bin` is CTranslate2's: float32, float16, or int8 and int16 with scales. `model.safetensors` is Hugging
Face's: float32, float16 or bfloat16. Files are mapped, and tensors are converted one at a time.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HEAD_WIDTH: Final = 64
FRAMES: Final = 1500
POSITIONS: Final = 448

Floats = NDArray[np.float32]


class WeightsError(ValueError):
    """The file is damaged, or it holds a network that this engine cannot compute."""


@dataclass(frozen=True, slots=True)
class Weights:
    """An opened model: its shape, and its tensors by name."""

    mels: int
    width: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    tensor: Callable[[str], Floats]

    @property
    def heads(self) -> int:
        """Of attention, in each layer."""
        return self.width // HEAD_WIDTH


def open_weights(directory: Path) -> Weights:
    """Open `model.bin` or, where there is none, `model.safetensors`.

    Raises:
        WeightsError: Neither is there, or it is none that this engine can take, and why.
    """
    directory = Path(directory)
    for name, read in (("model.bin", read_ctranslate2), ("model.safetensors", read_safetensors)):
        path = directory / name
        if path.is_file():
            try:
                return _shaped(read(path))
            except (struct.error, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
                raise WeightsError(f"{path} is damaged or not Whisper's: {error!r}") from error
            except WeightsError as error:
                raise WeightsError(f"{path}: {error}") from error
    raise WeightsError(f"{directory} has neither model.bin nor model.safetensors")


# ---------------------------------------------------------------------------------------------- CTranslate2

_CT2_TYPES: Final = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
"""Source: OpenNMT/CTranslate2 include/ctranslate2/types.h, DataType."""

_CT2_BFLOAT16: Final = 5
_CT2_VERSION: Final = 6
_CT2_GELU: Final = 3
"""Source: OpenNMT/CTranslate2 include/ctranslate2/ops/activation.h, ActivationType."""

_INT16_SCALE: Final = 1024.0
"""What int16 weights without a scale of their own were multiplied by. Source: CTranslate2, model.cc."""


class _Cursor:
    """Reads little-endian values off a mapped file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise WeightsError("the file is empty")
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 0

    def value(self, code: str) -> int:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return int(value)

    def text(self) -> str:
        length = self.value("H")
        raw = self.data[self.at : self.at + length]
        self.at += length
        return raw.rstrip(b"\0").decode()


def read_ctranslate2(path: Path) -> Mapping[str, NDArray[Any]]:
    """Map the tensors of a `model.bin`. Source of the format: CTranslate2 src/models/model.cc, Model::load."""
    cursor = _Cursor(path)
    version = cursor.value("I")
    if not 1 <= version <= _CT2_VERSION:
        raise WeightsError(f"format version {version} is unknown (this is for versions up to {_CT2_VERSION})")
    spec = cursor.text()
    cursor.value("I")  # the spec's revision
    if spec != "WhisperSpec":
        raise WeightsError(f"it is a {spec}, not Whisper")
    tensors: dict[str, NDArray[Any]] = {}
    for _ in range(cursor.value("I")):
        name = cursor.text()
        shape = tuple(cursor.value("I") for _ in range(cursor.value("B")))
        code, size = cursor.value("B"), cursor.value("I")
        if cursor.at + size > len(cursor.data):
            raise WeightsError(f"it ends inside {name}")
        if code == _CT2_BFLOAT16:
            tensors[name] = _from_bfloat16(np.frombuffer(cursor.data, "<u2", size // 2, cursor.at)).reshape(
                shape
            )
        elif code in _CT2_TYPES:
            kind = np.dtype(_CT2_TYPES[code])
            tensors[name] = np.frombuffer(cursor.data, kind, size // kind.itemsize, cursor.at).reshape(shape)
        else:
            raise WeightsError(f"{name} has the unknown type {code}")
        cursor.at += size
    for _ in range(cursor.value("I")):
        alias, name = cursor.text(), cursor.text()
        tensors[alias] = tensors[name]
    _check_ctranslate2(tensors)
    return _Dequantized(tensors)


def _check_ctranslate2(tensors: Mapping[str, NDArray[Any]]) -> None:
    """Refuse what this engine would compute wrongly."""
    expected = {"activation": _CT2_GELU, "pre_norm": 1, "alibi": 0, "scale_embeddings": 0}
    for option, value in expected.items():
        found = tensors.get(f"decoder/{option}")
        if found is not None and int(found) != value:
            raise WeightsError(f"decoder/{option} is {int(found)}, and Whisper's is {value}")
    for part in ("encoder", "decoder"):
        heads = tensors.get(f"{part}/num_heads")
        width = tensors[f"{part}/layer_norm/gamma"].shape[0]
        if heads is not None and int(heads) * HEAD_WIDTH != width:
            raise WeightsError(
                f"{part} has {int(heads)} heads for a width of {width}; Whisper's are {HEAD_WIDTH} wide"
            )
    projection, embeddings = tensors.get("decoder/projection/weight"), tensors["decoder/embeddings/weight"]
    if projection is not None and not np.array_equal(projection, embeddings):
        raise WeightsError("the projection is not the embeddings, as it is in Whisper")


class _Dequantized(dict[str, NDArray[Any]]):
    """Tensors whose integers are turned back into floats when asked for."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        values = super().__getitem__(name)
        if values.dtype.kind != "i" or values.ndim == 0:
            return values
        scale = np.asarray(super().get(f"{name}_scale", np.float32(_INT16_SCALE)), np.float32)
        if values.dtype == np.int8 and f"{name}_scale" not in self:
            raise WeightsError(f"{name} is int8 and has no scale")
        return values.astype(np.float32) / scale.reshape(scale.shape + (1,) * (values.ndim - scale.ndim))


# ---------------------------------------------------------------------------------------------- Hugging Face

_SAFETENSORS_TYPES: Final = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def _from_bfloat16(values: NDArray[Any]) -> Floats:
    return (values.astype(np.uint32) << 16).view(np.float32)


def read_safetensors(path: Path) -> Mapping[str, NDArray[Any]]:
    """Map the tensors of a `model.safetensors` under CTranslate2's names.

    Source of the format: huggingface/safetensors README; of the names: transformers modeling_whisper.py.
    """
    cursor = _Cursor(path)
    length = cursor.value("Q")
    header: dict[str, Any] = json.loads(cursor.data[cursor.at : cursor.at + length])
    start = cursor.at + length
    header.pop("__metadata__", None)

    def stored(name: str) -> NDArray[Any]:
        entry = header.get(f"model.{name}") or header[name]
        kind = entry["dtype"]
        if kind not in _SAFETENSORS_TYPES:
            raise WeightsError(f"{name} has the type {kind}; known are {', '.join(_SAFETENSORS_TYPES)}")
        first, last = entry["data_offsets"]
        if start + last > len(cursor.data):
            raise WeightsError(f"it ends inside {name}")
        item = np.dtype(_SAFETENSORS_TYPES[kind])
        values = np.frombuffer(cursor.data, item, (last - first) // item.itemsize, start + first)
        return (_from_bfloat16(values) if kind == "BF16" else values).reshape(entry["shape"])

    return _HuggingFace(stored, {name.removeprefix("model.") for name in header})


class _HuggingFace(Mapping[str, Any]):
    """Hugging Face's tensors under CTranslate2's names: q, k and v stacked, a missing key bias zero."""

    _PLAIN: Final = {
        "encoder/conv1/weight": "encoder.conv1.weight",
        "encoder/conv1/bias": "encoder.conv1.bias",
        "encoder/conv2/weight": "encoder.conv2.weight",
        "encoder/conv2/bias": "encoder.conv2.bias",
        "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
        "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
        "decoder/embeddings/weight": "decoder.embed_tokens.weight",
        "encoder/layer_norm/gamma": "encoder.layer_norm.weight",
        "encoder/layer_norm/beta": "encoder.layer_norm.bias",
        "decoder/layer_norm/gamma": "decoder.layer_norm.weight",
        "decoder/layer_norm/beta": "decoder.layer_norm.bias",
    }
    _LAYER: Final[Mapping[str, tuple[str, ...]]] = {
        "self_attention/layer_norm": ("self_attn_layer_norm",),
        "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attention/linear_1": ("self_attn.out_proj",),
        "attention/layer_norm": ("encoder_attn_layer_norm",),
        "attention/linear_0": ("encoder_attn.q_proj",),
        "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
        "attention/linear_2": ("encoder_attn.out_proj",),
        "ffn/layer_norm": ("final_layer_norm",),
        "ffn/linear_0": ("fc1",),
        "ffn/linear_1": ("fc2",),
    }

    def __init__(self, stored: Callable[[str], NDArray[Any]], names: set[str]) -> None:
        self._stored = stored
        self._parts: dict[str, tuple[str, ...]] = {ours: (theirs,) for ours, theirs in self._PLAIN.items()}
        for name in names:
            side, _, rest = name.partition(".layers.")
            if not rest:
                continue
            layer = rest.partition(".")[0]
            for ours, parts in self._LAYER.items():
                if side == "encoder" and ours.startswith("attention/"):
                    continue
                weight, bias = ("gamma", "beta") if ours.endswith("layer_norm") else ("weight", "bias")
                prefix = f"{side}.layers.{layer}."
                self._parts[f"{side}/layer_{layer}/{ours}/{weight}"] = tuple(
                    f"{prefix}{p}.weight" for p in parts
                )
                self._parts[f"{side}/layer_{layer}/{ours}/{bias}"] = tuple(f"{prefix}{p}.bias" for p in parts)
        self._names = names

    def __getitem__(self, name: str) -> NDArray[Any]:
        parts = []
        for part in self._parts[name]:
            if part.endswith("k_proj.bias") and part not in self._names:
                width = self._stored(part.replace("k_proj.bias", "q_proj.bias")).shape
                parts.append(np.zeros(width, np.float32))
            else:
                parts.append(self._stored(part))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __iter__(self) -> Any:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


# ---------------------------------------------------------------------------------------------- both


def _shaped(tensors: Mapping[str, NDArray[Any]]) -> Weights:
    """The network's shape, read off its tensors; what is not Whisper's is refused."""
    width, mels, taps = tensors["encoder/conv1/weight"].shape
    vocabulary, decoder_width = tensors["decoder/embeddings/weight"].shape
    frames = tensors["encoder/position_encodings/encodings"].shape[0]
    positions = tensors["decoder/position_encodings/encodings"].shape[0]
    found = {
        "a convolution of 3 taps": taps == 3,
        f"a width that {HEAD_WIDTH} divides, the same on both sides": width % HEAD_WIDTH == 0
        and width == decoder_width,
        f"{FRAMES} encoder positions": frames == FRAMES,
        f"{POSITIONS} decoder positions": positions == POSITIONS,
        "an inner width of four times the width": tensors["encoder/layer_0/ffn/linear_0/bias"].shape
        == (4 * width,),
    }
    missing = [what for what, is_so in found.items() if not is_so]
    if missing:
        raise WeightsError(f"not a Whisper network: it lacks {', '.join(missing)}")

    def tensor(name: str) -> Floats:
        try:
            return np.ascontiguousarray(tensors[name], dtype=np.float32)
        except KeyError:
            raise WeightsError(f"there is no tensor {name}") from None

    def layers(part: str) -> int:
        return sum(
            name.startswith(f"{part}/layer_") and name.endswith("/ffn/linear_0/bias") for name in tensors
        )

    return Weights(mels, width, layers("encoder"), layers("decoder"), vocabulary, tensor)
