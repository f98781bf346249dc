"""These tests want vLLM, in an environment of its own: `make vllm`."""

from __future__ import annotations

from support.vllm import has_vllm

collect_ignore_glob = [] if has_vllm() else ["test_*.py"]
