"""The timestamp grammar inside vLLM: a logits processor that its engine core loads by name.

vLLM has no such rules, and left to itself Whisper writes few timestamps. Where all timestamps together are
likelier than any one word, it is time for one. Source: openai/whisper decoding.py, ApplyTimestampRules and
SuppressTokens. All rows of a batch are ruled at once, with a fixed number of operations.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from stentor.engine.vllm.timestamps import CONFIG, WANTED, room

BARRED = float("-inf")


class TimestampGrammar(LogitsProcessor):  # type: ignore[misc]  # vLLM is not there when types are checked
    """The grammar, for the passes that want it."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        known = vllm_config.additional_config[CONFIG]
        self._eot, self._begin = int(known["eot"]), int(known["begin"])
        self._end = int(vllm_config.model_config.get_vocab_size())
        self._device = device
        self._tokens = torch.arange(self._end, device=device)
        self._barred = torch.tensor(known["barred"], device=device)
        self._written: dict[int, tuple[list[int], int]] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Learn which rows the batch has now."""
        process_dict_updates(self._written, batch_update, _written)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Bar what the grammar does not allow; float32 (rows, vocabulary), in place."""
        if not self._written:
            return logits
        rooms = [
            room(written, eot=self._eot, begin=self._begin, end=self._end, words_before=words_before)
            for written, words_before in self._written.values()
        ]
        rows = torch.tensor(list(self._written), device=self._device)
        text_from, text_to, stamps_from, stamps_to = torch.tensor(rooms, device=self._device).T.unsqueeze(-1)
        ruled = logits[rows]
        ruled[:, self._barred] = BARRED
        text, stamps = ruled[:, : self._begin], ruled[:, self._begin : self._end]
        words, times = self._tokens[: self._begin], self._tokens[self._begin :]
        text.masked_fill_((words < text_from) | (words >= text_to), BARRED)
        stamps.masked_fill_((times < stamps_from) | (times >= stamps_to), BARRED)
        text.masked_fill_((stamps.logsumexp(-1) > text.amax(-1)).unsqueeze(-1), BARRED)
        logits[rows] = ruled
        return logits


def _written(
    params: SamplingParams, _prompt: list[int] | None, output: list[int]
) -> tuple[list[int], int] | None:
    """The list that vLLM appends a row's tokens to, where the grammar is wanted, and `words_before`."""
    words_before = (params.extra_args or {}).get(WANTED)
    return None if words_before is None else (output, words_before)
