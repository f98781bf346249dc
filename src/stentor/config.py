"""Every knob, its unit, its default and why. Read at the edges only: `cli/` and `api/app.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from stentor.errors import SetupError


def usable_cpus() -> int:
    """Processors this process may run on, which a container often holds below the machine's count."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Settings(BaseSettings):
    """Settings from the environment (`STENTOR_…`); command-line options override them."""

    model_config = SettingsConfigDict(env_prefix="STENTOR_", frozen=True, extra="forbid")

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8000
    model: Annotated[
        str, Field(description="A directory, a packaged name (base, tiny.en) or a hub repository id.")
    ] = "base"
    served_model_names: Annotated[
        tuple[str, ...],
        Field(description="Further names under which the model answers; OpenAI's clients say whisper-1."),
    ] = ("whisper-1",)
    cache_dir: Annotated[
        Path | None, Field(description="Where joined model files are kept; the user's cache by default.")
    ] = None
    device: Annotated[str, Field(description="cpu, cuda or auto (cuda where there is one).")] = "auto"
    engine_slots: Annotated[
        PositiveInt | None,
        Field(description="Chunks CTranslate2 computes at once; one per usable processor by default."),
    ] = None
    engine: Annotated[
        Literal["auto", "native", "ctranslate2"],
        Field(description="auto is native where it runs (AMX or AVX-512 BF16), else ctranslate2."),
    ] = "auto"
    max_batch: Annotated[
        PositiveInt, Field(description="Chunks the native engine computes at once; each takes memory.")
    ] = 16
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
            raise SetupError(f"settings: {problems}") from error
        except SettingsError as error:  # a list that is not JSON
            raise SetupError(f"settings: {error}") from error

    @classmethod
    def markdown_table(cls) -> str:
        """All settings as a table for docs/configuration.md."""
        lines = ["| variable | default | what it is |", "|---|---|---|"]
        for name, field in cls.model_fields.items():
            default = "" if field.default is None else f"`{field.default}`"
            lines.append(f"| `STENTOR_{name.upper()}` | {default} | {field.description} |")
        return "\n".join(lines) + "\n"

    @property
    def resolved_preprocess_workers(self) -> int:
        return self.preprocess_workers or max(1, min(usable_cpus(), 2))

    @property
    def resolved_engine_slots(self) -> int:
        return self.engine_slots or usable_cpus()


def main() -> None:
    """Write the table of settings into the document named on the command line, in place of the old one."""
    document = Path(sys.argv[1])
    prose = document.read_text(encoding="utf-8").partition("| variable |")[0]
    document.write_text(prose + Settings.markdown_table(), encoding="utf-8")


if __name__ == "__main__":
    main()
