"""Where the native engine can be tested."""

from __future__ import annotations

import pytest


def skip_unless_native() -> None:
    """Skip the test where stentor-native is not built or has no processor to run on, and say why."""
    stentor_native = pytest.importorskip("stentor_native", reason="stentor-native is not built here")
    supported, reason = stentor_native.supported()
    if not supported:
        pytest.skip(f"the native engine does not run here: {reason}")
