"""vLLM's engine arguments: ours, and over them those that the operator gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stentor.errors import SetupError

URGENT = -1
"""The priority, in vLLM's sense, of what goes first; of all else it is 0."""

OURS = ("model", "logits_processors", "logprobs_mode", "skip_tokenizer_init")
"""Arguments that the engine cannot do without as it sets them."""


def engine_arguments(
    given: Mapping[str, Any], ours: Mapping[str, Any], *, known: Collection[str]
) -> dict[str, Any]:
    """All arguments.

    Args:
        given: The operator's, which go before ours.
        ours: What Stentor sets.
        known: The names that this vLLM has.

    Raises:
        SetupError: vLLM has no argument of that name, or it is not the operator's to set.
    """
    if unknown := sorted(set(given) - set(known)):
        raise SetupError(
            f"STENTOR_VLLM_ARGS: vLLM has no engine argument {', '.join(unknown)}. "
            "Names are those of vllm.AsyncEngineArgs, with underscores."
        )
    if taken := [name for name in OURS if name in given]:
        raise SetupError(f"STENTOR_VLLM_ARGS: Stentor sets {', '.join(taken)} itself")
    joined = {**ours, **given}
    if "additional_config" in ours and "additional_config" in given:
        joined["additional_config"] = {**given["additional_config"], **ours["additional_config"]}
    return joined
