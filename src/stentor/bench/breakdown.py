"""Where a Stentor's time goes while it is loaded: seconds of each stage, from its metrics."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from stentor.bench.series import ACTIVE, Series

STAGE_SUM = "stentor_request_stage_seconds_sum"

STAGES: Mapping[str, str] = {
    "admission": f'{STAGE_SUM}{{stage="admission"}}',
    "receive": f'{STAGE_SUM}{{stage="uploading"}}',
    "preprocess": "stentor_preprocess_step_seconds_sum",
    "engine queue": "stentor_engine_queue_seconds_sum",
    "engine compute": "stentor_engine_compute_seconds_sum",
    "answer": f'{STAGE_SUM}{{stage="answering"}}',
}
"""Stages in the order of a request's life, and the sample that counts each; one without labels is the sum
over all of them. `preprocess` is thread time, and the engine's are those of all chunks, which overlap: so the
stages of a request may add up to more than its latency."""

SCRAPE_TIMEOUT_S = 5.0


async def scrape(client: httpx.AsyncClient, path: str | None) -> Series | None:
    """Read what a server counts; None when it is no Stentor, or does not tell."""
    if path is None:
        return None
    try:
        response = await client.get(path, timeout=SCRAPE_TIMEOUT_S)
    except httpx.HTTPError:
        return None
    series = Series(response.text) if response.is_success else None
    return series if series is not None and ACTIVE in series else None


def stage_seconds(before: Series | None, after: Series | None) -> dict[str, float] | None:
    """Seconds that were spent at each stage between two scrapes."""
    if before is None or after is None:
        return None
    return {stage: _read(after, sample) - _read(before, sample) for stage, sample in STAGES.items()}


def _read(series: Series, sample: str) -> float:
    return series[sample] if "{" in sample else series.total(sample)
