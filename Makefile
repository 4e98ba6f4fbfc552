# Every target does its own set-up: system programs by apt (root) or by name, Python into .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo package wheels sbom release-check audit lock coverage test test-rust test-python test-python-slow test-slow build-tests stress lint lint-rust lint-python fuzz build-fuzz bench docs validation-pages bufferbloat-page applications-page fit-applications-page l4s-page clean
unexport PYTHONDONTWRITEBYTECODE   # tests start Python some thousand times: without bytecode each compiles the package anew
# "no" sets pip's --no-compile: most modules of the packages are never used, and the others get their bytecode at first use.
export PIP_NO_COMPILE := no

# The compiler of rust-toolchain.toml and the Python of .python-version; this machine's, where it has others and can get none.
PINNED_RUST := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
ifneq ($(shell command -v rustup),)
ifeq ($(shell rustup run $(PINNED_RUST) rustc --version 2>/dev/null || rustup toolchain install --profile default $(PINNED_RUST) 2>/dev/null),)
$(info Rust $(PINNED_RUST) is not here: the default toolchain is used)
export RUSTUP_TOOLCHAIN := $(shell cd / && rustup show active-toolchain | cut -d' ' -f1)
endif
endif
ifeq ($(shell python3 -c pass 2>/dev/null && echo there),)
export PYENV_VERSION := $(shell cd / && pyenv version-name 2>/dev/null)
endif
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools
CONSTRAINTS := $(VENV)/constraints.txt
RELEASE_TOOLS := $(VENV)/.release-tools
ARCHITECTURES ?= x86_64 aarch64
EDGE := $(VENV)/bin/wavebed-edge
AGENT := $(VENV)/bin/wavebed-agent
PLUGIN := plugins/pytest-wavebed
FUZZ_SECONDS ?= 30
FUZZ_SEED ?= 0
FUZZ_TARGETS ?=
EXPERIMENTS ?=
SOURCES := $(shell find crates wavebed.data -type f) Cargo.toml Cargo.lock pyproject.toml README.md
RUN_PROGRAMS := ip=iproute2 iperf3=iperf3 nginx=nginx-light curl=curl ping=iputils-ping irtt=irtt chromium=chromium \
	caddy=caddy ffmpeg=ffmpeg openssl=openssl npm=npm nft=nftables taskset=util-linux \
	dnsmasq=dnsmasq-base unshare=util-linux
NODE_PACKAGES := dashjs@5.2.1 speedline-core@1.4.3
TEST_PROGRAMS := $(RUN_PROGRAMS) haproxy=haproxy tshark=tshark setpriv=util-linux dpkg-deb=dpkg readelf=binutils systemd-analyze=systemd mptcpize=mptcpize \
	ssh=openssh-client dropbear=dropbear-bin ps=procps mandoc=mandoc fish=fish zsh=zsh

help:            ## what there is
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/\t/' | expand -t 14

$(VENV)/bin/maturin:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip $$(grep -o '^maturin==[^ ]*' requirements-tools.txt)

# The versions of the lock file, for what is installed before it.
$(CONSTRAINTS): requirements-tools.txt $(VENV)/bin/maturin
	sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*[^\\ ]\) *\\*$$/\1/p' requirements-tools.txt >$@

# Packages are unpacked while the binary is built; maturin finds it built.
$(INSTALLED): $(SOURCES)
	MAKEFLAGS= cargo build --release --locked --quiet --package wavebed-core & \
	$(MAKE) --no-print-directory $(CONSTRAINTS); \
	PIP_CONSTRAINT=$(CURDIR)/$(CONSTRAINTS) MAKEFLAGS= VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --quiet --extras all; \
	wait
	touch $@

# The remedies: maturin puts the binaries of one crate into a wheel, and routers take this one without the laboratory.
$(EDGE): $(INSTALLED)
	cargo build --release --locked --quiet --package wavebed-edge
	install $${CARGO_TARGET_DIR:-target}/release/wavebed-edge $@

# Runs on hosts with another C library or none: linked statically, and built for a named target, since the flag is not
# for the build scripts and macros of this machine.
$(AGENT): $(INSTALLED)
	target=$$(rustc -vV | sed -n 's/^host: //p') && \
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --quiet --package wavebed-agent --target $$target && \
	install $${CARGO_TARGET_DIR:-target}/$$target/release/wavebed-agent $@

# The versions of the lock file; then what pyproject.toml names beyond it, if anything.
$(TOOLS): $(INSTALLED) $(EDGE) $(AGENT) pyproject.toml requirements-tools.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tools.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --group tools
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable $(PLUGIN)
	touch $@

$(RELEASE_TOOLS): $(INSTALLED) requirements-release.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.txt
	touch $@

setup: $(TOOLS)  ## build the binary, install the package and the tools of its tests into .venv

demo: $(INSTALLED)   ## run the main job on shipped input; ends in report.html
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/wavebed demo

package:  ## the Debian package of wavebed-edge, in target/
	scripts/system-packages dpkg-deb=dpkg readelf=binutils
	cargo build --release --locked --quiet --package wavebed-edge
	scripts/debian-package $${CARGO_TARGET_DIR:-target}/release/wavebed-edge target

wheels: $(RELEASE_TOOLS)  ## wheels for the processors ARCHITECTURES, in dist/
	scripts/build-wheels $(BIN)/python $(ARCHITECTURES)

sbom: $(RELEASE_TOOLS)  ## bills of materials (CycloneDX) of the wheels in dist/, in dist/sbom/
	scripts/sbom $(BIN)

release-check: $(RELEASE_TOOLS)  ## the wheels in dist/: checked, installed by pip and pipx, and run; their sizes
	scripts/system-packages ping=iputils-ping qemu-aarch64-static=qemu-user-static
	scripts/release-check $(BIN)

audit: $(TOOLS)  ## licences and origins of dependencies, and their known faults where the databases can be reached
	$(BIN)/python scripts/audit.py $(BIN)

lock: $(TOOLS)   ## write the lock files of the Python tools anew, with the newest versions
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	for group in tools release; do \
	  sources=$$([ $$group = tools ] && echo "pyproject.toml --all-extras" || true); \
	  $(BIN)/uv pip compile --quiet --upgrade $$sources --group pyproject.toml:$$group --generate-hashes --universal \
	    --python-version 3.11 --no-emit-index-url --custom-compile-command "make lock" -o requirements-$$group.txt; \
	done

coverage: $(TOOLS)  ## lines that the Python tests run, programs they start included; of Rust, where cargo-llvm-cov is
	scripts/system-packages $(TEST_PROGRAMS)
	scripts/coverage $(BIN)

test: test-rust test-python  ## the tests, but the slow ones; SLOW=1: all

test-slow: test-python-slow  ## tests of ten seconds and more, which `make test` leaves out

test-rust:
	scripts/system-packages $(TEST_PROGRAMS)
	cargo test --workspace --quiet --no-fail-fast

build-tests:
	cargo test --workspace --quiet --no-run

# First what does not judge times, four at a time, then one by one what does.
test-python: WHICH := $(if $(SLOW),,and not slow)
test-python-slow: WHICH := and slow
test-python test-python-slow: $(TOOLS)
	scripts/system-packages $(TEST_PROGRAMS)
	scripts/node-packages $(NODE_PACKAGES)
	$(BIN)/pytest -n 4 --dist worksteal -m "not alone $(WHICH)" tests/path tests/validation tests/bad_input tests/property tests/unit tests/docs $(PLUGIN)/tests
	$(BIN)/pytest -m "alone $(WHICH)" tests/path tests/validation $(PLUGIN)/tests

stress: $(TOOLS) ## faults provoked on purpose: kills, freezes, hostile input, full disks; ten minutes, one table
	scripts/system-packages $(TEST_PROGRAMS)
	scripts/node-packages $(NODE_PACKAGES)
	$(BIN)/python -m tests.stress --json target/stress.json $(EXPERIMENTS)

lint: lint-rust lint-python audit  ## formatting, clippy, ruff, mypy, licences and origins of dependencies

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

lint-python: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fuzz: $(TOOLS)   ## every fuzz target, or FUZZ_TARGETS, for FUZZ_SECONDS
	scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_SEED) $(FUZZ_TARGETS)

build-fuzz:
	scripts/fuzz 0

bench: $(TOOLS)  ## benchmarks against the bare relay and Rattan, in one interleaved run
	scripts/system-packages $(RUN_PROGRAMS)
	cargo build --release --quiet -p wavebed-bench
	$(BIN)/python benches/run.py

docs: $(TOOLS)    ## the site of the documentation, in target/site; it needs no other host
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

validation-pages: $(INSTALLED)  ## plots and tables of docs/validation, from the traces in the folder WAVEBED_TRACES
	$(BIN)/python docs/validation/real_traces.py
	$(BIN)/python docs/validation/fit_walks.py
	$(BIN)/python docs/validation/fit_applications.py

bufferbloat-page: $(INSTALLED)  ## table and plots of docs/validation/bufferbloat.md; ten minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/bufferbloat.py

applications-page: $(INSTALLED)  ## table of docs/validation/applications.md; five minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/applications.py

fit-applications-page: $(INSTALLED) ## laboratory tables of docs/validation/fit-applications.md and docs/models/fit-replay.md; half an hour
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/fit_applications_laboratory.py
	$(BIN)/python docs/validation/fit_replay.py

l4s-page: $(INSTALLED) ## table of docs/validation/l4s.md; three minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/l4s.py

clean:
	rm -rf $(VENV) target dist fuzz/target
