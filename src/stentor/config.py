"""Every knob, its unit, its default and why. Read at the edges only: `cli/` and `api/app.py`."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from stentor.errors import SetupError

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of processor time in each period, then the period's own; `max` for no limit. Source: Linux'
cgroup-v2.rst."""


def usable_cpus(quota_file: Path = _CPU_QUOTA) -> int:
    """Processors this process may use: those it may run on, cut to its container's share of time."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()
        return max(1, min(cpus, int(quota) // int(period)))
    except (OSError, ValueError):  # no container, no Linux, or no limit
        return cpus


def _split(value: object) -> object:
    """A list as people write it into an environment: JSON, or with commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [entry for entry in map(str.strip, value.split(",")) if entry]


def _object(value: object) -> object:
    """A JSON object as it is written into an environment."""
    return json.loads(value) if isinstance(value, str) else value


_List = (NoDecode, BeforeValidator(_split))

KEY = re.compile(r"[\x21-\x7e]+")
"""What fits into an Authorization header: ASCII without spaces."""


class Settings(BaseSettings):
    """Settings from the environment (`STENTOR_…`); command-line options override them."""

    model_config = SettingsConfigDict(
        env_prefix="STENTOR_", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8000
    model: Annotated[
        str, Field(description="A directory, a packaged name (base, tiny.en) or a hub repository id.")
    ] = "base"
    served_model_names: Annotated[
        tuple[str, ...],
        *_List,
        Field(description="Further names under which the model answers: what OpenAI's clients ask for."),
    ] = ("whisper-1", "gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
    cache_dir: Annotated[
        Path | None, Field(description="Where joined model files are kept; the user's cache by default.")
    ] = None
    device: Annotated[str, Field(description="cpu, cuda or auto (cuda where there is one).")] = "auto"
    beam_size: Annotated[
        int,
        Field(ge=1, le=32, description="Transcripts followed at once, of which the likeliest wins."),
    ] = 1
    compute_type: Annotated[
        str | None,
        Field(
            description="int8 by default on a CPU, float16 on a GPU. The native engine has int8 and bfloat16."
        ),
    ] = None
    engine_slots: Annotated[
        PositiveInt | None,
        Field(description="Chunks CTranslate2 computes at once; one per usable processor by default."),
    ] = None
    engine: Annotated[
        Literal["auto", "native", "ctranslate2", "vllm"],
        Field(description="auto is native where it runs (AMX or AVX-512 BF16), else ctranslate2."),
    ] = "auto"
    max_batch: Annotated[
        PositiveInt,
        Field(description="Chunks the native engine or vLLM computes at once; each takes memory."),
    ] = 16
    vllm_args: Annotated[
        dict[str, Any] | None,
        NoDecode,
        BeforeValidator(_object),
        Field(description="vLLM's engine arguments as a JSON object, over ours; see docs/engines.md."),
    ] = None
    ray: Annotated[
        bool, Field(description="Run the engine in processes of Ray's instead; needs stentor[ray].")
    ] = False
    ray_engines: Annotated[PositiveInt, Field(description="How many of them.")] = 1
    preprocess_workers: Annotated[
        PositiveInt | None,
        Field(description="Threads that decode audio; by default max(1, min(processors, 2))."),
    ] = None
    max_upload_bytes: Annotated[
        PositiveInt, Field(description="Largest request body; larger ones get 413.")
    ] = 1 << 30
    max_audio_s: Annotated[
        PositiveFloat, Field(description="Longest audio in seconds, counted while decoding.")
    ] = 4 * 3600.0
    max_requests: Annotated[
        PositiveInt, Field(description="Requests admitted at once; more get 429 with Retry-After.")
    ] = 256
    max_queued_audio_s: Annotated[
        PositiveFloat, Field(description="Audio admitted and not yet transcribed; more gets 429.")
    ] = 24 * 3600.0
    max_stored_bytes: Annotated[PositiveInt, Field(description="Uploads on disk at once; more gets 429.")] = (
        8 << 30
    )
    upload_pause_s: Annotated[
        PositiveFloat, Field(description="Longest pause in an upload before it is cut off with 408.")
    ] = 30.0
    send_timeout_s: Annotated[
        PositiveFloat, Field(description="A client that reads nothing of its answer for this long has left.")
    ] = 60.0
    request_timeout_s: Annotated[
        PositiveFloat | None, Field(description="Deadline for a whole request; none by default.")
    ] = None
    drain_timeout_s: Annotated[
        NonNegativeFloat, Field(description="Seconds that running work may take after SIGTERM.")
    ] = 30.0
    api_keys: Annotated[
        tuple[SecretStr, ...] | None,
        *_List,
        Field(description="Keys that may use the server, as Authorization: Bearer; anyone may by default."),
    ] = None
    api_keys_file: Annotated[
        Path | None,
        Field(description="A file with more of them, one a line, lines with # left out; read at the start."),
    ] = None
    keyless: Annotated[
        tuple[Literal["health", "metrics"], ...],
        *_List,
        Field(description="What needs no key where there are keys; empty to lock both."),
    ] = ("health", "metrics")
    cors_origins: Annotated[
        tuple[str, ...],
        *_List,
        Field(description="Origins whose web pages may call the server, * for all; none by default."),
    ] = ()
    page: Annotated[bool, Field(description="Serve the page at / on which people try it out.")] = True
    tracing: Annotated[
        bool,
        Field(description="Send OpenTelemetry traces, where the OTEL_ variables say; needs stentor[otel]."),
    ] = False
    log_json: Annotated[bool, Field(description="Log lines as JSON instead of for people.")] = False

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """Settings from the environment, with those given on the command line over them.

        Raises:
            SetupError: One of them has a value it cannot have.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            problems = "; ".join(
                f"STENTOR_{str(problem['loc'][0]).upper()}: {problem['msg']}" for problem in error.errors()
            )
            raise SetupError(f"settings: {problems}") from None  # its text shows values, keys among them

    @classmethod
    def markdown_table(cls) -> str:
        """All settings as a table for docs/configuration.md."""
        lines = ["| variable | default | what it is |", "|---|---|---|"]
        for name, field in cls.model_fields.items():
            default = "" if field.default in (None, ()) else f"`{_written(field.default)}`"
            lines.append(f"| `STENTOR_{name.upper()}` | {default} | {field.description} |")
        return "\n".join(lines) + "\n"

    @field_validator("api_keys")
    @classmethod
    def _keys_are_keys(cls, keys: tuple[SecretStr, ...] | None) -> tuple[SecretStr, ...] | None:
        _check_keys([] if keys is None else [key.get_secret_value() for key in keys], given=keys is not None)
        return keys

    @field_validator("api_keys_file")
    @classmethod
    def _file_holds_keys(cls, path: Path | None) -> Path | None:
        if path is not None:
            _check_keys(_keys_in(path), given=True)
        return path

    @cached_property
    def known_api_keys(self) -> frozenset[str]:
        """All keys, from the environment and from the file."""
        listed = {key.get_secret_value() for key in self.api_keys or ()}
        return frozenset(listed.union(_keys_in(self.api_keys_file) if self.api_keys_file else ()))

    @property
    def resolved_preprocess_workers(self) -> int:
        return self.preprocess_workers or max(1, min(usable_cpus(), 2))

    @property
    def resolved_engine_slots(self) -> int:
        return self.engine_slots or usable_cpus()


def _keys_in(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    return [key for key in map(str.strip, lines) if key and not key.startswith("#")]


def _check_keys(keys: list[str], *, given: bool) -> None:
    """A list of keys that holds none is a mistake that would open the server to all."""
    if given and not keys:
        raise ValueError("it is set and holds no key; leave it out to serve whoever asks")
    if not all(KEY.fullmatch(key) for key in keys):
        raise ValueError("a key holds white space or characters that no header carries")


def _written(default: object) -> str:
    """A default as it would be written into the environment."""
    return ",".join(default) if isinstance(default, tuple) else str(default)


def main() -> None:
    """Write the table of settings into the document named on the command line, in place of the old one."""
    document = Path(sys.argv[1])
    prose = document.read_text(encoding="utf-8").partition("| variable |")[0]
    document.write_text(prose + Settings.markdown_table(), encoding="utf-8")


if __name__ == "__main__":
    main()
