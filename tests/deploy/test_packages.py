"""What the packages hold that people install: built here, without the network, and looked into."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NATIVE = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAX_FILE_BYTES = 2_000_000
"""The voice activity detector has 1.2 MB; models are packages of their own."""

needs = pytest.mark.skipif(
    not all(map(find_spec, ("hatchling", "hatch_fancy_pypi_readme", "scikit_build_core"))),
    reason="the packages' build tools are not installed",
)
pytestmark = [needs, pytest.mark.timeout(120)]


def build(source: Path, target: Path, *kinds: str) -> None:
    choices = [argument for kind in kinds for argument in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *choices]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target, "sdist", "wheel")
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"stentor-{PROJECT['version']}.dist-info/METADATA"))


def tracked(folder: str) -> set[str]:
    """Files of the repository below a folder; none where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, check=False)
    return {name for name in listed.stdout.decode().split("\0") if name}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    held = {
        name for name in wheel.namelist() if not name.startswith(f"stentor-{PROJECT['version']}.dist-info/")
    }
    assert held >= {
        "stentor/py.typed",
        "stentor/api/page/files/index.html",
        "stentor/audio/assets/silero_vad_v6.onnx",
    }
    assert "stentor/audio/assets/silero_vad_v6.LICENSE.txt" in held
    if files := tracked("src/stentor"):
        assert {f"src/{name}" for name in held} >= files
    assert all(name.startswith("stentor/") and "__pycache__" not in name for name in held)
    assert max(entry.file_size for entry in wheel.infolist()) < MAX_FILE_BYTES
    assert f"stentor-{PROJECT['version']}.dist-info/licenses/LICENSE" in wheel.namelist()


def test_the_sdist_makes_the_same_wheel_by_itself(
    built: Path, wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        assert all(entry.size < MAX_FILE_BYTES for entry in archive.getmembers())
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {entry.name for entry in source.iterdir()} == {
        *("src", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore")
    }
    build(source, tmp_path / "again", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(again) as rebuilt:
        digests = [{entry.filename: entry.CRC for entry in made.infolist()} for made in (wheel, rebuilt)]
    assert digests[0] == digests[1]


def test_the_metadata_reads_well_on_an_index(metadata: Message) -> None:
    """There the README stands alone: a link into the repository would lead nowhere."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# Stentor" in text
    assert "Apache-2.0" in text
    assert all(target.startswith(("http://", "https://")) for target in re.findall(r"\]\(([^)]+)\)", text))
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"


def test_every_documented_extra_is_one(metadata: Message) -> None:
    extras = set(metadata.get_all("Provides-Extra", []))
    documented = {
        extra
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for listed in re.findall(r"\bstentor\[([\w,-]+)\]", page.read_text(encoding="utf-8"))
        for extra in listed.split(",")
    }
    assert documented <= extras
    assert {"base", "native"} <= documented


def test_both_packages_go_together() -> None:
    """`stentor[native]` names the engine of its own version."""
    assert PROJECT["version"] == NATIVE["version"]
    (requirement,) = PROJECT["optional-dependencies"]["native"]
    assert requirement.startswith(f"{NATIVE['name']}=={NATIVE['version']};")
    assert PROJECT["requires-python"] == NATIVE["requires-python"]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "native" / "LICENSE").read_bytes()


def test_the_engines_sdist_has_all_that_compiling_takes(tmp_path: Path) -> None:
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "native", check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    written = (ROOT / "native" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert held >= {*re.findall(r"src/\w+\.cpp", written), "CMakeLists.txt", "LICENSE", "pyproject.toml"}
    assert held >= {f"src/{path.name}" for path in (ROOT / "native" / "src").glob("*.h")}
    assert held >= {"stentor_native/py.typed", "stentor_native/_native.pyi"}
    assert not any(
        name.startswith(("tests", "build", ".")) or name.endswith((".so", ".pyc")) for name in held
    )


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert released[0] == PROJECT["version"]
