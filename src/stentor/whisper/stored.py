"""Tensors in files: out of CTranslate2's `model.bin`, into Hugging Face's `model.safetensors`."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stentor.errors import ModelError

Tensor: TypeAlias = NDArray[Any]
Float16: TypeAlias = NDArray[np.float16]

SPEC: Final = "WhisperSpec"
_BFLOAT16: Final = 5
_TYPES: Final = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2", _BFLOAT16: "<u2"}
"""Source: OpenNMT/CTranslate2 include/ctranslate2/types.h, DataType; numpy has no bfloat16."""

_INT16_SCALE: Final = 1024.0
"""What int16 weights without a scale were multiplied by. Source: CTranslate2 src/models/model.cc."""

_ALIGNMENT_BYTES: Final = 8
"""Source: huggingface/safetensors README, the header is padded with spaces."""


class _Cursor:
    """Reads little-endian values off a mapped file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 0

    def value(self, code: str) -> int:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return int(value)

    def text(self) -> str:
        length = self.value("H")
        self.at += length
        return self.data[self.at - length : self.at].rstrip(b"\0").decode()

    def tensor(self) -> Tensor:
        shape = tuple(self.value("I") for _ in range(self.value("B")))
        code, size = self.value("B"), self.value("I")
        kind = np.dtype(_TYPES[code])
        values: Tensor = np.frombuffer(self.data, kind, size // kind.itemsize, self.at).reshape(shape)
        self.at += size
        return (values.astype(np.uint32) << 16).view(np.float32) if code == _BFLOAT16 else values


def read_ctranslate2(path: Path) -> dict[str, Tensor]:
    """Map the tensors of a `model.bin`, as they are stored but for bfloat16, which becomes float32.

    Source of the format: CTranslate2 src/models/model.cc, Model::load.

    Raises:
        ModelError: The file is damaged, or holds no Whisper.
    """
    try:
        cursor = _Cursor(path)
        cursor.value("I")  # the format's version
        spec = cursor.text()
        cursor.value("I")  # the spec's revision
        if spec != SPEC:
            raise ModelError(f"{path} holds a {spec}, and not Whisper")
        tensors = {}
        for _ in range(cursor.value("I")):
            name = cursor.text()
            tensors[name] = cursor.tensor()
        return tensors  # what follows are aliases: of the projection, which is the embeddings
    except (struct.error, KeyError, ValueError, OSError) as error:
        raise ModelError(f"{path} is damaged, or not CTranslate2's: {error}") from error


def as_float16(tensors: Mapping[str, Tensor], name: str) -> Float16:
    """A tensor as float16; integers are divided by their scales."""
    values = tensors[name]
    if values.dtype.kind == "i":
        scale = np.asarray(tensors.get(f"{name}_scale", _INT16_SCALE), np.float32)
        values = values.astype(np.float32) / scale.reshape(scale.shape + (1,) * (values.ndim - scale.ndim))
    return np.ascontiguousarray(values, np.float16)


def write_safetensors(path: Path, tensors: Mapping[str, Float16]) -> None:
    """Write tensors as float16. Source of the format: huggingface/safetensors README."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, values in tensors.items():
        begin, end = end, end + values.nbytes
        header[name] = {"dtype": "F16", "shape": values.shape, "data_offsets": (begin, end)}
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % _ALIGNMENT_BYTES)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(told)) + told)
        for values in tensors.values():
            file.write(values.astype("<f2").tobytes())
