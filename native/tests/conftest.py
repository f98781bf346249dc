"""Kernels on every backend that runs here; what does not is skipped with its reason."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import stentor_native
from numpy.typing import NDArray

Floats = NDArray[np.float32]

available, reason = stentor_native.supported()


@pytest.fixture(scope="session", autouse=True)
def _vector_unit() -> None:
    if not available:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def kernels():
    """The tests' module, with single kernels."""
    try:
        return importlib.import_module("stentor_native._testing")
    except ImportError:
        pytest.skip("built without STENTOR_TESTING")


@pytest.fixture(params=["avx512", "emulated", "amx"])
def backend(request: pytest.FixtureRequest, kernels) -> str:
    if request.param == "amx" and not kernels.has_amx():
        pytest.skip("the processor has no AMX; the tile kernels ran on emulated tiles")
    return str(request.param)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def bf16(values: Floats) -> Floats:
    """Round to bfloat16, ties to even, as the engine does with every operand of a product."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def relative_error(found: Floats, expected: Floats) -> float:
    """The distance as a share of the expected's length."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
