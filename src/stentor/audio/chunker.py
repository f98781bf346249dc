"""From blocks to chunks: cut where it is quiet, while the audio streams by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stentor.types import MAX_CHUNK_S, SAMPLE_RATE, Chunk, Samples

CHUNK_SAMPLES = MAX_CHUNK_S * SAMPLE_RATE

HOP_SAMPLES = SAMPLE_RATE // 100
WINDOW_HOPS = 10
WINDOW_SAMPLES = WINDOW_HOPS * HOP_SAMPLES
"""100 ms, the length of a pause between words. Source: vllm-project/vllm speech_to_text, min_energy_split."""

SILENCE_PEAK = 1e-4
"""About 3 steps of 16 bit: silence with dither on it. Speech at -70 dB peaks at several times as much."""


def chunks(blocks: Iterable[Samples], *, search_s: float = 5.0) -> Iterator[Chunk]:
    """Cut a stream of blocks into chunks of at most `MAX_CHUNK_S`.

    Where more audio follows, a chunk ends at the centre of the quietest 100 ms within its last `search_s`
    seconds. Chunks lie end to end and together are the input, sample by sample. Each owns its samples;
    besides the one that grows nothing is kept.

    Args:
        blocks: float32 (n_samples,) each, of any length.
        search_s: How far before the limit the quiet place is looked for, at least 0.1.
    """
    growing = np.empty(CHUNK_SAMPLES, np.float32)
    filled = index = start_samples = 0
    for block in blocks:
        taken = 0
        while taken < len(block):
            if filled == CHUNK_SAMPLES:  # only here is it known that more follows
                cut = quiet_cut(growing, search_s)
                full, growing = growing, np.empty(CHUNK_SAMPLES, np.float32)
                filled = CHUNK_SAMPLES - cut
                growing[:filled] = full[cut:]
                yield Chunk(index, start_samples, full[:cut])
                index += 1
                start_samples += cut
            part = block[taken : taken + CHUNK_SAMPLES - filled]
            growing[filled : filled + len(part)] = part
            filled += len(part)
            taken += len(part)
    if filled:
        yield Chunk(index, start_samples, growing[:filled], last=True)


def quiet_cut(samples: Samples, search_s: float) -> int:
    """The centre of the quietest 100 ms within the last `search_s` of `samples`; of equals, the last one."""
    zone_hops = int(search_s * SAMPLE_RATE) // HOP_SAMPLES
    zone_hops = min(max(zone_hops, WINDOW_HOPS), len(samples) // HOP_SAMPLES)
    start = len(samples) - zone_hops * HOP_SAMPLES
    hops = samples[start:].reshape(zone_hops, HOP_SAMPLES)
    energies = np.einsum("ij,ij->i", hops, hops)
    # Summed anew for each window and not as a difference of running sums, whose rounding would make
    # digital silence after loud speech louder than nothing.
    windows = sliding_window_view(energies, WINDOW_HOPS).sum(axis=1)
    quietest = len(windows) - 1 - int(windows[::-1].argmin())
    return start + quietest * HOP_SAMPLES + WINDOW_SAMPLES // 2


def is_silent(samples: Samples) -> bool:
    """Whether this is digital silence, with or without dither: nothing an engine should be asked about."""
    return len(samples) == 0 or bool(max(samples.max(), -samples.min()) < SILENCE_PEAK)
