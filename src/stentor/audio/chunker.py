"""From blocks to chunks: cut where it is quiet, while the audio streams by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stentor.types import MAX_CHUNK_S, SAMPLE_RATE, Chunk, Samples

CHUNK_SAMPLES = MAX_CHUNK_S * SAMPLE_RATE

HOP_SAMPLES = SAMPLE_RATE // 100
WINDOW_HOPS = 10
WINDOW_SAMPLES = WINDOW_HOPS * HOP_SAMPLES
"""100 ms, the length of a pause between words. Source: vllm-project/vllm speech_to_text, min_energy_split."""

QUIET_DB = 28.0
LOUD_PERCENTILE = 95
"""A place so far below the loud parts of its chunk is a pause. Pauses of recordings are 30 to 80 dB below;
the quietest place in speech without any is 16 (with music) to 28 dB below, mostly the closure before a p or a
t, in the middle of a word. With 35 dB a room's noise makes chunks overlap that need not: 10 % more work."""

OVERLAP_SAMPLES = 3 * SAMPLE_RATE // 2
"""Where there is none, both chunks hear three seconds: some words that both are sure about."""

TINY = 1e-12

SILENCE_PEAK = 1e-4
"""About 3 steps of 16 bit: silence with dither on it. Speech at -70 dB peaks at several times as much."""


def chunks(blocks: Iterable[Samples], *, search_s: float = 5.0) -> Iterator[Chunk]:
    """Cut a stream of blocks into chunks of at most `MAX_CHUNK_S`.

    Where more audio follows, a chunk ends at the centre of the quietest 100 ms within its last `search_s`
    seconds. Chunks lie end to end and together are the input, sample by sample; but where it is not quiet
    there either, the chunk ends `OVERLAP_SAMPLES` later, or at the limit, and the next one begins as much
    earlier. Each owns its samples; besides the one that grows nothing is kept.

    Args:
        blocks: float32 (n_samples,) each, of any length.
        search_s: How far before the limit the quiet place is looked for, at least 0.1.
    """
    growing = np.empty(CHUNK_SAMPLES, np.float32)
    filled = index = start_samples = before = 0
    for block in blocks:
        taken = 0
        while taken < len(block):
            if filled == CHUNK_SAMPLES:  # only here is it known that more follows
                end, resume = cut(growing, search_s)
                full, growing = growing, np.empty(CHUNK_SAMPLES, np.float32)
                filled = CHUNK_SAMPLES - resume
                growing[:filled] = full[resume:]
                after = end - resume
                yield Chunk(index, start_samples, full[:end], before_samples=before, after_samples=after)
                index += 1
                start_samples += resume
                before = after
            part = block[taken : taken + CHUNK_SAMPLES - filled]
            growing[filled : filled + len(part)] = part
            filled += len(part)
            taken += len(part)
    if filled:
        yield Chunk(index, start_samples, growing[:filled], last=True, before_samples=before)


def cut(samples: Samples, search_s: float) -> tuple[int, int]:
    """Where a full chunk ends and where the next one begins: earlier, where it is quiet nowhere."""
    quietest, hush_db = quiet_cut(samples, search_s)
    half_window = WINDOW_SAMPLES // 2
    silent = is_silent(samples[max(0, quietest - half_window) : quietest + half_window])
    # A cut so early would go on with most of the same chunk again; nobody searches so far.
    if silent or hush_db >= QUIET_DB or quietest < len(samples) // 2:
        return quietest, quietest
    return min(len(samples), quietest + OVERLAP_SAMPLES), quietest - OVERLAP_SAMPLES


def quiet_cut(samples: Samples, search_s: float) -> tuple[int, float]:
    """The centre of the quietest 100 ms within the last `search_s` of `samples`; of equals, the last one.

    With it comes how far it is below the loud parts of all the samples, in dB.
    """
    zone_hops = int(search_s * SAMPLE_RATE) // HOP_SAMPLES
    zone_hops = min(max(zone_hops, WINDOW_HOPS), len(samples) // HOP_SAMPLES)
    n_hops = len(samples) // HOP_SAMPLES
    hops = samples[len(samples) - n_hops * HOP_SAMPLES :].reshape(n_hops, HOP_SAMPLES)
    energies = np.einsum("ij,ij->i", hops, hops)
    # Summed anew for each window and not as a difference of running sums, whose rounding would make
    # digital silence after loud speech louder than nothing.
    windows = sliding_window_view(energies[-zone_hops:], WINDOW_HOPS).sum(axis=1)
    quietest = len(windows) - 1 - int(windows[::-1].argmin())
    loud = float(np.percentile(energies, LOUD_PERCENTILE)) * WINDOW_HOPS
    hush_db = 10 * math.log10((loud + TINY) / (float(windows[quietest]) + TINY))
    start = len(samples) - zone_hops * HOP_SAMPLES
    return start + quietest * HOP_SAMPLES + WINDOW_SAMPLES // 2, hush_db


def is_silent(samples: Samples) -> bool:
    """Whether this is digital silence, with or without dither: nothing an engine should be asked about."""
    return len(samples) == 0 or bool(max(samples.max(), -samples.min()) < SILENCE_PEAK)
