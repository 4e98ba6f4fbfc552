# Every target does its own set-up: system programs by apt (root) or by name, Python into .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.SECONDARY:
.PHONY: help setup demo kernel kernel-wheel plugin-wheels test-kernel package wheels sbom release-check audit lock coverage test test-rust test-unit test-lab test-browser test-setup programs witnesses build-tests measure validation play-docs stress lint lint-rust lint-python fuzz bench docs moving-picture validation-pages bufferbloat-page applications-page fit-applications-page l4s-page virtual-time-page virtual-beside-real-page clean
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
UV := $(VENV)/bin/uv
CONSTRAINTS := $(VENV)/constraints.txt
# Of the two profiles, `release` is fast, for measuring; `dev` compiles soon and checks overflow and assertions, for tests.
INSTALLED := $(VENV)/.installed-release
REMEDIES := $(VENV)/.remedies-release
TESTED := $(VENV)/.installed-dev $(VENV)/.remedies-dev
TOOLS := $(VENV)/.tools
RELEASE_TOOLS := $(VENV)/.release-tools
FUZZ_TOOLS := $(VENV)/.fuzz-tools
ARCHITECTURES ?= x86_64 aarch64
FUZZ_SECONDS ?= 30
FUZZ_SEED ?= 0
FUZZ_TARGETS ?=
EXPERIMENTS ?=
SOURCES := $(shell find crates wavebed.data -type f) Cargo.toml Cargo.lock pyproject.toml README.md
DEMO_PROGRAMS := ip=iproute2 iperf3=iperf3 nginx=nginx-light openssl=openssl ping=iputils-ping chromium=chromium
RUN_PROGRAMS := $(DEMO_PROGRAMS) curl=curl irtt=irtt caddy=caddy ffmpeg=ffmpeg npm=npm nft=nftables \
	taskset=util-linux dnsmasq=dnsmasq-base unshare=util-linux
TEST_PROGRAMS := $(RUN_PROGRAMS) haproxy=haproxy tshark=tshark setpriv=util-linux dpkg-deb=dpkg readelf=binutils systemd-analyze=systemd mptcpize=mptcpize \
	ssh=openssh-client dropbear=dropbear-bin ps=procps mandoc=mandoc fish=fish zsh=zsh podman=podman runc=runc netavark=netavark
NODE_PACKAGES := dashjs@5.2.1 speedline-core@1.4.3

# uv installs in a tenth of pip's processor time. It reads no file of pip, so it gets the index and the certificates of pip.
PIP_INDEX := $(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null)
ifneq ($(PIP_INDEX),)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX)
endif
export UV_NATIVE_TLS ?= true
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
TIMED := scripts/timed
PYTEST := $(BIN)/pytest --durations=30

help:            ## what there is
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/\t/' | expand -t 14

$(UV): requirements-tools.txt
	$(TIMED) "set-up: Python environment" $(PYTHON) -m venv $(VENV)
	$(TIMED) "set-up: uv and maturin" $(BIN)/pip install --quiet --disable-pip-version-check $$(grep -oE '^(maturin|uv)==[^ ]*' requirements-tools.txt)

# The versions of the lock file, for what is installed without its hashes.
$(CONSTRAINTS): requirements-tools.txt $(UV)
	sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*[^\\ ]\) *\\*$$/\1/p' requirements-tools.txt >$@

# Packages are unpacked while cargo compiles; maturin finds both ready.
$(VENV)/.installed-%: $(SOURCES) | $(CONSTRAINTS)
	MAKEFLAGS= $(TIMED) "set-up: compiling wavebed-core" cargo build --profile $* --locked --quiet --package wavebed-core & built=$$!; \
	$(TIMED) "set-up: Python packages of wavebed" $(INSTALL) --constraint $(CONSTRAINTS) --requirements pyproject.toml --extra all; \
	wait $$built
	UV_CONSTRAINT=$(CURDIR)/$(CONSTRAINTS) MAKEFLAGS= VIRTUAL_ENV=$(CURDIR)/$(VENV) \
	  $(TIMED) "set-up: installing wavebed" $(BIN)/maturin develop --uv --profile $* --quiet --extras all
	rm -f $(VENV)/.installed-*
	touch $@

# maturin puts the binaries of one crate into a wheel; these two work without the laboratory. For tests they are those of
# `build-tests`: alone, they would have fewer features of their dependencies, which Cargo would compile once more.
BINARIES_release := --package wavebed-edge --package wavebed-agent
BINARIES_dev := --workspace --bins
$(VENV)/.remedies-%: $(VENV)/.installed-%
	MAKEFLAGS= $(TIMED) "set-up: compiling wavebed-edge, wavebed-agent" cargo build --profile $* --locked --quiet $(BINARIES_$*)
	install --strip $${CARGO_TARGET_DIR:-target}/$(patsubst dev,debug,$*)/wavebed-{edge,agent} $(VENV)/bin
	rm -f $(VENV)/.remedies-*
	touch $@

# The versions and hashes of the lock file; then what pyproject.toml names beyond it, if anything.
$(TOOLS): requirements-tools.txt pyproject.toml | $(CONSTRAINTS)
	$(TIMED) "set-up: Python tools" $(INSTALL) --require-hashes --requirements requirements-tools.txt
	$(INSTALL) --group tools
	touch $@

$(RELEASE_TOOLS): $(TOOLS) requirements-release.txt
	$(INSTALL) --require-hashes --requirements requirements-release.txt
	touch $@

$(FUZZ_TOOLS): $(TOOLS) pyproject.toml
	$(INSTALL) --group fuzz
	touch $@

setup: $(INSTALLED) $(REMEDIES) $(TOOLS)  ## build the programs for measuring; install them, the package and its tools into .venv

demo: $(INSTALLED)   ## run the main job on shipped input; ends in report.html
	$(TIMED) "set-up: system programs" scripts/system-packages $(DEMO_PROGRAMS)
	$(BIN)/wavebed demo

# Needs neither Rust nor the packages of wavebed, so that it is built beside them.
KERNEL_PROGRAMS := gcc=gcc make=make flex=flex bison=bison bc=bc patch=patch xz=xz-utils ar=binutils
KERNEL_PACKAGES := $(VENV)/kernel-packages
KERNEL_SOURCE ?=
kernel: | $(CONSTRAINTS)  ## the kernel of virtual time, unless it is in the cache; KERNEL_SOURCE=FILE names its source
	scripts/system-packages $(KERNEL_PROGRAMS)
	$(INSTALL) --constraint $(CONSTRAINTS) --target $(KERNEL_PACKAGES) msgspec
	MAKEFLAGS= PYTHONPATH=python:$(KERNEL_PACKAGES) $(TIMED) "set-up: the kernel of virtual time" \
	  nice $(BIN)/python -m wavebed kernel build $(if $(KERNEL_SOURCE),--source $(KERNEL_SOURCE))

kernel-wheel: kernel $(RELEASE_TOOLS)  ## the package wavebed-kernel, with the kernel of the cache, in dist/
	scripts/system-packages readelf=binutils
	WAVEBED_KERNEL=$$(PYTHONPATH=python:$(KERNEL_PACKAGES) $(BIN)/python -c 'from wavebed.virtual.kernel import kernel_folder; print(kernel_folder())') \
	  $(BIN)/uv build --quiet --wheel --out-dir dist plugins/wavebed-kernel

plugin-wheels: $(RELEASE_TOOLS)  ## the packages pytest-wavebed and testcontainers-wavebed, in dist/
	for each in pytest testcontainers; do \
	  $(BIN)/uv build --quiet --wheel --out-dir dist plugins/$$each-wavebed; \
	  $(BIN)/twine check --strict dist/$${each}_wavebed-*.whl; \
	done

# Tests of virtual time build it again where this failed. They are skipped only if nobody has its source any more.
# The Python environment comes first: two makes at once would install it over each other.
test-kernel: | $(CONSTRAINTS)
	$(MAKE) --no-print-directory kernel || echo "virtual time: its kernel is not there"

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
	for group in tools release; do \
	  sources=$$([ $$group = tools ] && echo "pyproject.toml --all-extras" || true); \
	  $(BIN)/uv pip compile --quiet --upgrade $$sources --group pyproject.toml:$$group --generate-hashes --universal \
	    --python-version 3.11 --no-emit-index-url --custom-compile-command "make lock" -o requirements-$$group.txt; \
	done
	$(BIN)/uv pip compile --quiet --upgrade pyproject.toml --extra report --generate-hashes --universal \
	  --python-version 3.11 --no-emit-index-url --custom-compile-command "make lock" -o requirements-container.txt

coverage: test-setup  ## lines that the Python tests run, programs they start included; of Rust, where cargo-llvm-cov is
	scripts/coverage $(BIN)

# Tests that compute and tests that wait for the kernel go on beside each other, the longest first.
test:            ## every test whose result no machine's speed changes
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target test-kernel build-tests test-setup
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target test-lab test-rust test-unit test-browser

# More threads than processors, as most of these tests wait for the kernel.
test-rust: build-tests programs  ## the tests of the crates
	MAKEFLAGS= RUST_TEST_THREADS=4 $(TIMED) "tests: Rust" cargo test --workspace --locked --quiet --no-fail-fast

build-tests:
	$(TIMED) "set-up: compiling the programs" cargo build --workspace --bins --locked --quiet
	$(TIMED) "set-up: compiling the Rust tests" cargo test --workspace --locked --quiet --no-run

programs:
	$(TIMED) "set-up: system programs" scripts/system-packages $(TEST_PROGRAMS)

test-setup: $(TESTED) $(TOOLS) programs  ## programs that check themselves, the package, and all that its tests run
	$(TIMED) "set-up: packages of npm" scripts/node-packages $(NODE_PACKAGES)

test-unit: test-setup  ## the Python tests without programs, and the commands of the documentation, parsed
	$(TIMED) "tests: unit" $(PYTEST) --junit-xml=target/test-unit.xml tests/unit tests/validation tests/docs

test-lab: test-setup  ## the Python tests that start programs and laboratories
	$(TIMED) "tests: process, lab" $(PYTEST) -n 4 --dist loadfile --junit-xml=target/test-lab.xml tests/lab tests/process

test-browser: test-setup  ## the Python tests that look at pages in Chromium
	$(TIMED) "tests: browser" $(PYTEST) --junit-xml=target/test-browser.xml tests/browser

measure: setup programs  ## judge rates and times of this machine, one test after another; a late machine leaves them open
	$(PYTEST) tests/measure
	cargo test --workspace --locked --quiet --no-fail-fast -- --ignored

witnesses: test-setup  ## of `make measure`, one test of each family
	$(TIMED) "measure: witnesses" $(PYTEST) --junit-xml=target/witnesses.xml tests/measure --witnesses

validation: test-setup  ## long computations against published figures
	$(PYTEST) -n auto tests/validation --long

PLAY ?= all
play-docs: test-setup  ## run the commands, programs and notebooks of the documentation: all, or PLAY=20 drawn by a seed (SEED)
	$(TIMED) "documentation: played" $(PYTEST) -n 2 --dist worksteal tests/docs/test_play.py --play $(PLAY) $(if $(SEED),--play-seed $(SEED))

stress: test-setup ## faults provoked on purpose: kills, freezes, hostile input, full disks; ten minutes, one table
	$(BIN)/python -m tests.stress --json target/stress.json $(EXPERIMENTS)

lint: lint-rust lint-python audit  ## formatting, clippy, ruff, mypy, licences and origins of dependencies

lint-rust:
	$(TIMED) "lint: cargo fmt" cargo fmt --all --check
	$(TIMED) "lint: clippy" cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

lint-python: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fuzz: $(FUZZ_TOOLS) $(INSTALLED)  ## every fuzz target, or FUZZ_TARGETS, for FUZZ_SECONDS
	scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_SEED) $(FUZZ_TARGETS)

bench: $(TOOLS) $(INSTALLED)  ## benchmarks against the bare relay and Rattan, in one interleaved run
	scripts/system-packages $(RUN_PROGRAMS)
	cargo build --release --quiet -p wavebed-bench
	$(BIN)/python benches/run.py

docs: test-setup  ## the site of the documentation, in target/site; it needs no other host
	NO_MKDOCS_2_WARNING=1 $(TIMED) "documentation: site" $(BIN)/mkdocs build --quiet --strict
	$(TIMED) "documentation: looking at the site" $(PYTEST) tests/docs/test_site.py --site target/site

moving-picture: $(INSTALLED) kernel  ## the moving picture of README, from a run in virtual time
	$(BIN)/python docs/images/moving_picture.py

validation-pages: $(INSTALLED)  ## a plot and tables of docs/validation, from the traces in the folder WAVEBED_TRACES
	$(BIN)/python docs/validation/real_traces.py
	$(BIN)/python docs/validation/fit_walks.py
	$(BIN)/python docs/validation/fit_applications.py

bufferbloat-page: $(INSTALLED)  ## table of bufferbloat in docs/validation/recorded; ten minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/bufferbloat.py

applications-page: $(INSTALLED)  ## table of pages in outages; five minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/applications.py

fit-applications-page: $(INSTALLED) ## laboratory tables of docs/validation/recorded: applications over walks, replay; half an hour
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/fit_applications_laboratory.py
	$(BIN)/python docs/validation/fit_replay.py

l4s-page: $(INSTALLED) ## table of L4S over a radio; three minutes
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/l4s.py

virtual-time-page: $(INSTALLED) kernel ## tables of docs/validation/virtual-time.md; half an hour
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/virtual_time.py

virtual-beside-real-page: $(INSTALLED) kernel ## tables of docs/validation/virtual-time.md; half an hour
	scripts/system-packages $(RUN_PROGRAMS)
	$(BIN)/python docs/validation/virtual_beside_real.py

clean:
	rm -rf $(VENV) target dist fuzz/target
