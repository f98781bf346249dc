"""Kernels on every backend that runs here; what does not is skipped with its reason."""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@pytest.fixture(scope="session", autouse=True)
def _vector_unit() -> None:
    """Nothing here runs without stentor-native and a processor for it."""
    stentor_native = pytest.importorskip("stentor_native", reason="stentor-native is not built here")
    supported, reason = stentor_native.supported()
    if not supported:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def kernels():
    """The tests' module, with single kernels."""
    # A build of its own, e.g. with sanitizers, stands in for the installed one.
    if build := os.environ.get("STENTOR_NATIVE_BUILD"):
        sys.path.insert(0, build)
        return importlib.import_module("_testing")
    return importlib.import_module("stentor_native._testing")


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
