"""Whisper's tokens: text, languages, tasks and timestamps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from stentor.errors import ModelError
from stentor.types import MAX_CHUNK_S
from stentor.whisper.languages import LANGUAGES

TIMESTAMP_STEP_S = 0.02
"""Seconds between two timestamp tokens. Source: openai/whisper tokenizer.py, 1501 tokens over 30 s."""

LONGEST_TOKEN_CHARS = 128
"""No token stands for more characters: the longest has 128 bytes, in the English vocabulary."""

BEFORE_A_BAR = re.compile(r"(?<=<)(?=\|)")
"""Parts `<` from `|`, so that `<|endoftext|>` in a prompt cannot be read as the special token."""


def _byte_of() -> dict[str, int]:
    """How a byte-level vocabulary writes bytes: as themselves where they print, else from U+0100 on.

    Source: openai/gpt-2 encoder.py, bytes_to_unicode.
    """
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = _byte_of()

FIRST_MERGE = "Ġ", "t"
"""A space and a t, the first of GPT-2's and of both of Whisper's vocabularies."""


def _with_first_merge(tokenizer: Tokenizer, path: Path) -> Tokenizer:
    """The tokenizer, with the first of its merges where the file has lost it.

    Some converters take it for the header line of merges.txt; base's package is an example. Without it " the"
    is read as a space and "the", and so is every word with a t in a prompt.
    """
    if tokenizer.token_to_id("".join(FIRST_MERGE)) is None or len(tokenizer.encode(" t").ids) == 1:
        return tokenizer
    told = json.loads(path.read_text(encoding="utf-8"))
    merges = told["model"]["merges"]
    merges.insert(0, " ".join(FIRST_MERGE) if isinstance(merges[0], str) else list(FIRST_MERGE))
    return Tokenizer.from_str(json.dumps(told))


class WhisperTokenizer:
    """The vocabulary of one Whisper model, read from its `tokenizer.json`.

    Raises:
        ModelError: The file is missing, damaged, or not Whisper's.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "tokenizer.json"
        try:
            self._tokenizer = _with_first_merge(Tokenizer.from_file(str(path)), path)
        except Exception as error:  # tokenizers raises bare Exception for a missing or damaged file
            raise ModelError(f"cannot read {path}: {error}") from error
        self.eot = self.special("<|endoftext|>")
        self.sot = self.special("<|startoftranscript|>")
        self.sot_prev = self.special("<|startofprev|>")
        self.no_timestamps = self.special("<|notimestamps|>")
        self.timestamp_begin = self.no_timestamps + 1

    def knows(self, name: str) -> bool:
        """Whether there is a special token of this name, such as `<|yue|>`."""
        return self._tokenizer.token_to_id(name) is not None

    def languages(self, *, multilingual: bool) -> tuple[str, ...]:
        """Codes that the model hears; one for English alone has the others' tokens and hears none."""
        if not multilingual:
            return ("en",)
        return tuple(code for code in LANGUAGES if self.knows(f"<|{code}|>"))

    def special(self, name: str) -> int:
        """The id of a special token.

        Raises:
            ModelError: The vocabulary has none of this name.
        """
        token: int | None = self._tokenizer.token_to_id(name)
        if token is None:
            raise ModelError(f"the model's tokenizer.json has no {name}: it is not a Whisper model")
        return token

    def encode(self, text: str) -> list[int]:
        """Text to tokens; what looks like a special token in it is taken as the characters it is."""
        return [
            token
            for piece in BEFORE_A_BAR.split(text)
            for token in self._tokenizer.encode(piece, add_special_tokens=False).ids
        ]

    def first_tokens(self, text: str, count: int) -> list[int]:
        """Where a text begins: its first `count` tokens. No more of it is looked at than they can stand for.

        Encoding holds the GIL and takes 0.3 s for a megabyte, which a request may well send.
        """
        return self.encode(text[: (count + 1) * LONGEST_TOKEN_CHARS])[:count]

    def last_tokens(self, text: str, count: int) -> list[int]:
        """Where a text ends: its last `count` tokens, at least 1; see `first_tokens`."""
        return self.encode(text[-(count + 1) * LONGEST_TOKEN_CHARS :])[-count:]

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens to text, timestamps and other special tokens left out."""
        text: str = self._tokenizer.decode([token for token in tokens if token < self.eot])
        return text

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a text token stands for; they need not be whole characters."""
        written: str | None = self._tokenizer.id_to_token(token)
        return bytes(BYTE_OF[character] for character in written or "")

    def timestamp(self, seconds: float) -> int:
        """The timestamp token for a time that counts from the window's start."""
        return self.timestamp_begin + round(min(seconds, MAX_CHUNK_S) / TIMESTAMP_STEP_S)

    def seconds(self, token: int) -> float:
        """The time that a timestamp token stands for, counted from the window's start."""
        return (token - self.timestamp_begin) * TIMESTAMP_STEP_S
