"""From files to a running engine."""

from __future__ import annotations

from collections.abc import Sequence

from stentor_native._native import Engine, Vocabulary, unsupported_reason
from stentor_native.weights import Weights


def supported() -> tuple[bool, str]:
    """Whether the engine runs on this processor, and if not, why."""
    reason = unsupported_reason()
    return not reason, reason


def make_engine(
    weights: Weights,
    vocabulary: Vocabulary,
    *,
    max_batch: int,
    max_beams: int = 1,
    threads: int = 0,
    alignment_heads: Sequence[tuple[int, int]] = (),
    backend: str = "auto",
    encode_share: float = 0.9,
    patient_share: float = 0.125,
    quantized: bool = False,
) -> Engine:
    """Pack the weights and start the engine's thread.

    Args:
        weights: An opened model.
        vocabulary: Its landmarks; `size` is taken from the weights.
        max_batch: Sequences computed at once; memory grows by `Engine.slot_bytes` with each.
        max_beams: Beams that a request may ask for; `Engine.slot_bytes` grows with them.
        threads: Threads that compute; 0 for one per processor granted.
        alignment_heads: (layer, head) whose scores an `align` request returns.
        backend: `amx`, `avx512` or `auto`.
        encode_share: Share of the time that encoding gets while others decode.
        patient_share: Share of the time that remains for the others while something urgent is there.
        quantized: Whether the encoder's layers are computed in 8 bits, where that is faster (on `avx512`;
            `Engine.quantized` says so). Its output is then 3 % of its length off, in place of 0.8 %.

    Raises:
        WeightsError: A tensor is missing or odd.
        RuntimeError: No backend runs here.
        ValueError: The shape is none of Whisper's, or a token is outside the vocabulary.
    """
    vocabulary.size = weights.vocabulary
    return Engine(
        weights.tensor,
        mels=weights.mels,
        width=weights.width,
        encoder_layers=weights.encoder_layers,
        decoder_layers=weights.decoder_layers,
        vocabulary=vocabulary,
        alignment_heads=list(alignment_heads),
        max_batch=max_batch,
        max_beams=max_beams,
        threads=threads,
        encode_share=encode_share,
        patient_share=patient_share,
        backend=backend,
        quantized=quantized,
    )
