"""The compiled part; see native/src/bindings.cpp."""

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

class Statistics(TypedDict):
    """Since the start: decoder steps, their rows, windows encoded, and the seconds both took."""

    steps: int
    rows: int
    encoded: int
    step_s: float
    encode_s: float

def unsupported_reason() -> str:
    """Why no backend runs here; empty where one does."""

def usable_processors() -> int:
    """Processors granted by affinity and cgroup."""

def backend() -> Literal["", "avx512", "amx"]:
    """The backend that `auto` stands for."""

def measure_limits(backend: str, threads: int) -> tuple[float, float]:
    """The machine at its best: operations a second in products, and bytes a second read from memory."""

class EncodedAudio:
    """What the encoder made of a window; kept for a second request."""

    @property
    def nbytes(self) -> int: ...
    def numpy(self) -> Floats:
        """float32 (1500, width)."""

class Event:
    """An answer, or that there will be none."""

    @property
    def id(self) -> int: ...
    @property
    def what(self) -> Literal["finished", "aborted"]: ...
    @property
    def audio(self) -> EncodedAudio | None: ...
    @property
    def tokens(self) -> list[int]:
        """Of the transcript, without prompt and end."""
    @property
    def log_probabilities(self) -> list[float]:
        """Of each token, and of the end if the model chose it."""
    @property
    def went_on(self) -> list[int]:
        """Where in `tokens` a word stands although the end was likelier: `words_before` barred it."""
    @property
    def no_speech_probability(self) -> float: ...
    @property
    def probabilities(self) -> list[float]:
        """probe: of what was probed; align: of each prompt token but the first."""
    def alignment(self, heads: int) -> Floats | None:
        """align: float32 (prompt tokens, alignment heads, 1500), scores before the softmax."""

class Vocabulary:
    """The vocabulary's landmarks and what is barred."""

    size: int
    end_of_text: int
    no_timestamps: int
    timestamp_begin: int
    no_speech: int
    suppressed: Sequence[int]
    suppressed_at_begin: Sequence[int]
    max_initial_timestamp: int

class Engine:
    """A network, its slots, and the thread that computes them."""

    def __init__(
        self,
        tensor: Callable[[str], Floats],
        *,
        mels: int,
        width: int,
        encoder_layers: int,
        decoder_layers: int,
        vocabulary: Vocabulary,
        alignment_heads: Sequence[tuple[int, int]],
        max_batch: int,
        max_beams: int = 1,
        threads: int = 0,
        encode_share: float = 0.9,
        patient_share: float = 0.125,
        backend: str = "auto",
        quantized: bool = False,
    ) -> None: ...
    def submit(
        self,
        id: int,
        *,
        mel: Floats | None = None,
        audio: EncodedAudio | None = None,
        prompt: Sequence[int],
        kind: Literal["transcribe", "probe", "align"] = "transcribe",
        start: int = 0,
        timestamps: bool = True,
        words_before: int = 0,
        temperature: float = 0.0,
        seed: int = 0,
        max_tokens: int = 224,
        probed: Sequence[int] = (),
        urgent: bool = False,
        beams: int = 1,
    ) -> None:
        """Take a request in; its answer comes as an event.

        Args:
            id: Comes back with the events.
            mel: float32 (mels, 3000), or `audio` of an earlier answer instead.
            prompt: Tokens before the transcript; for `align` the transcript as well.
            kind: What is asked.
            start: Index in the prompt of the start of the transcript.
            timestamps: Whether the timestamp grammar holds.
            words_before: A timestamp. A segment that begins before it has words: the transcript does not end there.
            temperature: 0 takes the likeliest, others draw.
            seed: Of the draws at other temperatures.
            max_tokens: Of the transcript.
            probed: Tokens whose probabilities a `probe` asks for.
            urgent: Whether it goes before what is not; those get `patient_share` of the time meanwhile.
            beams: Transcripts followed at once at a temperature of 0, at most `max_beams`.

        Raises:
            ValueError: The request is odd, and why.
        """

    def abort(self, ids: Sequence[int]) -> None:
        """End requests before the next step; each answers `aborted`. Silent on unknown ids."""

    def events(self, timeout_s: float) -> list[Event]:
        """Wait for events without the GIL; also returns when the engine stops."""

    def close(self) -> None:
        """Abort everything and end the thread."""

    @property
    def failure(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def quantized(self) -> bool:
        """Whether the encoder's layers are in 8 bits."""
    @property
    def threads(self) -> int: ...
    @property
    def shared_bytes(self) -> int:
        """Weights and working memory."""
    @property
    def slot_bytes(self) -> int:
        """Memory of one of `max_batch` sequences."""
    @property
    def statistics(self) -> Statistics: ...
