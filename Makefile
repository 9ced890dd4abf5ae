# make: set up, build the program and the Python extension.
# make demo: the program alone, then plain beside speculative decoding.
# make check: the tests' programs, too; lint what differs from BASE (main), run the quick tests: a minute and the build.
# make test: run every test.
# The checks of .ci/run, each by itself: make lint, tidy (FILES=cpp/engine/scheduler.cpp: only that), asan, tsan,
# fuzz-parsers, wheel-check.
# make bench: against other engines (hours; QUICK=1: minutes; PEERS="--pairs 1.1b": options of bench/peers/peers.py).
# A second run is incremental; `make clean` keeps llama.cpp's build in .cache, `make distclean` drops that too.

empty :=
space := $(empty) $(empty)

VENV := .venv
export NINJA_STATUS ?= [%f/%t, %w]$(space)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
PYTHON ?= python3
PRESET ?= default
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
BUILD := build/$(PRESET)

.PHONY: all build program demo vulkan vulkan_layers check test test-real test-gpu test-drivers rehearse lint tidy
.PHONY: tidy-changed asan tsan wheel-check wheels arm-test release stubs docs fuzz fuzz-parsers mutants soak gguf-check
.PHONY: server-check clients-check convert-check train-check bench bench-real clean distclean
.DEFAULT_GOAL := all
all: build

INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
$(VENV)/.ready: requirements/build.txt
	@echo "setting up $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements/build.txt
	$(VENV)/bin/python -c "import pathlib, sysconfig; \
	  pathlib.Path(sysconfig.get_path('purelib'), 'specdec_native.pth').write_text('$(CURDIR)/python\n')"
	touch $@

# Tests, linters and what make their inputs.
$(VENV)/.test: requirements/test.txt $(VENV)/.ready
	$(INSTALL) -r requirements/test.txt
	touch $@

$(BUILD)/build.ninja: $(VENV)/.ready CMakePresets.json
	cmake --preset $(PRESET) --log-level=WARNING

# The program and the extension; with SPECDEC_BENCH also the programs of bench.
build: $(BUILD)/build.ninja
	@cmake --build $(BUILD)

program: $(BUILD)/build.ninja
	@cmake --build $(BUILD) --target specdec

# The bundled target with the shape, and so the time per pass, of a 1.1B model: 0.8 GB that are kept, made in half a
# minute (3 GB of disk). Where the disk has less it is a 115M one, a tenth of that.
SPECDEC := $(BUILD)/specdec
DEMO_LARGE := $(BUILD)/demo-1.1b-mxfp6.gguf
DEMO_FREE_KB ?= $(shell df -Pk . | awk 'NR == 2 { print $$4 }')
DEMO_SHAPE ?= $(shell test -e $(DEMO_LARGE) || test "0$(DEMO_FREE_KB)" -gt 3100000 && echo 1.1b || echo 115m)
DEMO_MODEL ?= $(BUILD)/demo-$(DEMO_SHAPE)-mxfp6.gguf
$(DEMO_MODEL): models/widen.py models/stdlib-target-f16.gguf | program
	@echo "making the demo's target: the bundled model with the shape of a $(DEMO_SHAPE) one, then its MXFP6 version"
	@trap 'rm -f "$@.f16" "$@.part"' EXIT; \
	  $(VENV)/bin/python models/widen.py $(DEMO_SHAPE) "$@.f16" && \
	  $(SPECDEC) quantize "$@.f16" "$@.part" | tail -n 2 && mv "$@.part" "$@"

demo: program $(DEMO_MODEL)
	@test $(DEMO_SHAPE) != 115m || \
	  echo "(A 1.1B target shows more: with 3 GB of free disk it is made, or by make demo DEMO_SHAPE=1.1b.)"
	@echo "Temperature 0, the same weights, without and with a draft; accepted drafts are green (copies cyan), the text \
	is the same. The target costs what a"
	@echo "$(DEMO_SHAPE) model costs and writes what the bundled 7M one writes, so look at the speed; specdec race \
	-m YOURS -md DRAFT compares yours."
	@$(SPECDEC) race -m "$(DEMO_MODEL)" -md models/stdlib-draft-f16.gguf -p "def bfs(graph, start):" -n 100 --temp 0

$(VENV)/.ray: requirements/ray.txt $(VENV)/.ready
	$(INSTALL) -r requirements/ray.txt || \
	  echo "no ray for this Python or platform: its test is skipped"
	touch $@

# Most tests wait for a program of one or two threads. xdist's own order would run the files with the fewest tests last,
# and those are the longest ones.
PYTEST_JOBS ?= 2
# Tests run all kernels that this machine can run, and not only those that it chooses.
every_kernel = @cmake --preset $(PRESET) -DSPECDEC_KERNELS=native --log-level=WARNING
# The files that differ from the branch BASE, committed or not.
BASE ?= main
CHANGED = { git diff --name-only --diff-filter=d $$(git merge-base HEAD $(BASE) 2>/dev/null || echo HEAD); \
  git ls-files --others --exclude-standard; }
# Neither the tests with ctest's label slow nor those that load a model or start a server: they lack pytest's mark
# quick.
check: $(BUILD)/build.ninja $(VENV)/.test
	$(every_kernel)
	@cmake --build $(BUILD) --target all test_programs
	$(CHANGED) | grep '\.pyi\?$$' | sort -u | \
	  xargs -r sh -c 'ruff check --force-exclude "$$@" && ruff format --check --force-exclude "$$@" && mypy' ruff
	$(CHANGED) | grep '\.\(cpp\|h\)$$' | sort -u | xargs -r clang-format --dry-run -Werror
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS) -LE slow
	$(VENV)/bin/python -m pytest -n $(PYTEST_JOBS) --dist loadfile -m quick \
	  $$(grep -rl 'pytest.mark.quick' --include='test_*.py' tests)

test: $(BUILD)/build.ninja $(VENV)/.test $(VENV)/.ray
	$(every_kernel)
	@cmake --build $(BUILD) --target all test_programs
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)
	$(VENV)/bin/python -m pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder

# Downloads 1.6 GB the first time (bench/common/real_models.py); REAL_MODELS names another folder for them.
REAL_MODELS ?= $(CURDIR)/.cache/real-models
test-real: build $(VENV)/.test
	$(VENV)/bin/python -m bench.common.real_models --to "$(REAL_MODELS)"
	SPECDEC_REAL_MODELS="$(REAL_MODELS)" $(VENV)/bin/python -m pytest -v tests/real

# The module for GPUs with Vulkan, next to the program. What it is built with is downloaded where there is apt-get, else
# the system's own. VULKAN_SUITE=sid: downloaded from this suite.
VULKAN_SUITE ?=
VULKAN := .cache/vulkan$(addprefix -,$(VULKAN_SUITE))
$(VULKAN)/.ready: release/vulkan_sdk.sh release/newer_packages.sh
	rm -rf $(@D)
	release/vulkan_sdk.sh $(@D) $(VULKAN_SUITE) && touch $@
vulkan_sdk := $(if $(shell which apt-get 2>/dev/null),$(VULKAN)/.ready)
vulkan: $(BUILD)/build.ninja $(vulkan_sdk)
	cmake --preset $(PRESET) --log-level=WARNING -DSPECDEC_VULKAN=ON \
	  $(if $(vulkan_sdk),-DSPECDEC_VULKAN_SDK=$(CURDIR)/$(VULKAN))
	@cmake --build $(BUILD)
vulkan_layers: vulkan  # for tests
	@cmake --build $(BUILD) --target $@

# The tests on a device: the first GPU, or Mesa's software device (apt install mesa-vulkan-drivers) where there is none;
# DEVICE=Vulkan1: that one. All processes, and later runs, share the shaders that Mesa compiled.
ON_DEVICE = SPECDEC_DEVICE_MODULES=$(CURDIR)/$(BUILD) MESA_SHADER_CACHE_DIR=$(CURDIR)/.cache/mesa \
  $(if $(DEVICE),SPECDEC_TEST_DEVICE=$(DEVICE),GGML_VK_VISIBLE_DEVICES=$${GGML_VK_VISIBLE_DEVICES:-0})
test-gpu: vulkan_layers $(VENV)/.test
	$(ON_DEVICE) $(VENV)/bin/python -m pytest -n $(PYTEST_JOBS) --dist worksteal tests/gpu

# The measurement of a GPU on the same device, in its shortest form (bench/device/measure.sh).
rehearse: vulkan_layers $(VENV)/.test
	SPECDEC_REHEARSAL=1 $(ON_DEVICE) $(VENV)/bin/python -m pytest tests/gpu/test_measure.py

# Which shaders run on GPUs that are not there, with Mesa's drivers for them (tests/gpu/test_drivers.py). INTEL=1: also
# on Intel's, for which a library is built first (tests/gpu/build_intel_shim.sh names the packages that this needs).
.cache/drivers/.ready: tests/gpu/unpack_drivers.sh release/newer_packages.sh
	rm -rf $(@D)
	tests/gpu/unpack_drivers.sh $(@D) && touch $@
.cache/drivers/.intel: tests/gpu/build_intel_shim.sh requirements/mesa.txt .cache/drivers/.ready
	tests/gpu/build_intel_shim.sh $(@D) && touch $@
test-drivers: vulkan_layers $(VENV)/.test .cache/drivers/$(if $(INTEL),.intel,.ready)
	SPECDEC_DEVICE_MODULES=$(CURDIR)/$(BUILD) SPECDEC_TEST_DRIVERS=$(CURDIR)/.cache/drivers \
	  $(VENV)/bin/python -m pytest -n $(PYTEST_JOBS) tests/gpu/test_drivers.py

lint: $(VENV)/.test
	ruff check . && ruff format --check .
	git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
	mypy

# Our own files that this machine compiles, each by itself. clang-tidy brings its own headers of the compiler, and its
# own list of what is an error: the -Werror of SPECDEC_WERROR is for gcc's warnings, which clang does not share.
FILES ?= $$($(VENV)/bin/python -c "import json; \
  print(*sorted({entry['file'] for entry in json.load(open('build/tidy/compile_commands.json'))}))")
# tidy-changed: only what changed since the last tag (.ci/changed_sources.py).
tidy-changed: FILES := $$($(VENV)/bin/python .ci/changed_sources.py build/tidy/compile_commands.json)
tidy tidy-changed: $(VENV)/.test
	cmake --preset tidy --log-level=WARNING
	@files="$(FILES)" && printf '%s\n' $$files | \
	  xargs -r -n 1 -P $(JOBS) clang-tidy -p build/tidy --quiet --extra-arg=-Wno-error

# Address and undefined behaviour; leaks too. Not the kernels' own tests and the enumerations, which take very long this
# way.
ASAN_TESTS := decode_pictures verify_tree tree_law argument parallel file residency weight_stream piece_cache cgroup \
  cores fingerprint mxfp6_codec distribution transforms verify_block verify_token gumbel_max shared_mapping \
  bounded_folder decoder drafting_head ngram_proposer suffix_index suffix_proposer text_stream pass_times slot_ledger \
  scheduler scheduler_random graph_mxfp6 graph_floats graph_blocks graph_best_rows graph_scaled_rows graph_attention \
  fuzz_models fuzz_generate
asan: $(VENV)/.test
	cmake --preset asan --log-level=WARNING
	@cmake --build build/asan --target $(addprefix test_,$(ASAN_TESTS) schema_driver)
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) \
	  -R '^($(subst $(space),|,$(ASAN_TESTS)))$$'
	$(VENV)/bin/python -m tests.fuzz.schemas --driver build/asan/tests/constraints/test_schema_driver \
	  --count 1500 --seed 300001

# The tests that start threads, since in the others there is no race to find, and the server, with clients that leave at
# random moments. ggml, whose threads run the models, is built for it, too.
TSAN_TESTS := parallel weight_stream piece_cache executor generator_threads
tsan: $(VENV)/.ready
	cmake --preset tsan --log-level=WARNING
	@cmake --build build/tsan --target $(addprefix test_,$(TSAN_TESTS)) specdec
	ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^($(subst $(space),|,$(TSAN_TESTS)))$$'
	TSAN_OPTIONS=halt_on_error=1 \
	  $(VENV)/bin/python -m tests.server.leaving --clients 60 --at-once 6 --specdec build/tsan/specdec

# Debian's Pythons, for their headers and to run wheels with.
DEBIAN := .cache/debian
DEBIAN_PYTHONS := $(foreach suite,bookworm trixie sid,$(DEBIAN)/$(suite)-amd64/.ready $(DEBIAN)/$(suite)-arm64/.ready)
$(DEBIAN)/%/.ready: release/debian_python.sh
	rm -rf $(@D)
	release/debian_python.sh $(@D) $(subst -, ,$*) && touch $@ || \
	  echo "no Python of Debian $* (its apt-get is needed): no wheel is run with it"

# This machine's part of `make wheels`: the wheel in an environment of its own, and the archive.
wheel-check: build $(VENV)/.test $(VENV)/.wheels $(DEBIAN)/bookworm-amd64/.ready
	rm -rf dist
	$(VENV)/bin/python release/wheels.py manylinux_2_28_$$(uname -m) --pythons $(VENV)/bin/python
	SPECDEC_WHEEL=$$(ls dist/*.whl) SPECDEC_WHEELS=dist \
	  $(VENV)/bin/python -m pytest tests/release tests/bindings/test_package.py -k "test_wheels or the_wheel"

# Wheels and archives of other platforms, cross-compiled (release/wheels.py: PLATFORMS="manylinux_2_28_aarch64",
# PYTHONS="INTERPRETER ..."); then what this machine can run of them is run and compared with the program of
# `make build`, or the portable one for this machine: ARM64 under qemu-user, Windows under wine. VULKAN_MODULE=1: also
# the module for GPUs on Windows, tried on Mesa's software device (apt install wine64 xvfb mesa-vulkan-drivers).
$(VENV)/.wheels: requirements/wheels.txt $(VENV)/.ready
	$(INSTALL) -r requirements/wheels.txt
	touch $@

wheels: $(VENV)/.test $(VENV)/.wheels $(DEBIAN_PYTHONS) $(if $(VULKAN_MODULE),$(VULKAN)/.ready)
	$(VENV)/bin/python release/wheels.py $(PLATFORMS) $(if $(PYTHONS),--pythons $(PYTHONS)) \
	  $(if $(VULKAN_MODULE),--vulkan $(VULKAN))
	test ! -e $(BUILD)/specdec || cmake --build $(BUILD) --target specdec
	program=$$(ls $(BUILD)/specdec build/wheels/manylinux_2_28_$$(uname -m)/specdec 2>/dev/null | head -n 1); \
	test -n "$$program" || { echo "no program to compare with: make build"; exit 1; }; \
	SPECDEC_BINARY=$(CURDIR)/$$program SPECDEC_WHEELS=dist $(VENV)/bin/python -m pytest -v tests/release/test_wheels.py

# The C++ tests compiled for ARM64, under qemu-user.
arm-test: $(VENV)/.wheels $(DEBIAN)/bookworm-arm64/.ready
	$(VENV)/bin/python release/wheels.py manylinux_2_28_aarch64 --pythons $(VENV)/bin/python \
	  --emulator "qemu-aarch64 -cpu max -L $(CURDIR)/$(DEBIAN)/bookworm-arm64"

# Completes dist, where wheels are: source package, bill of materials, checksums; checked as PyPI would. python
# release/release.py --cut 0.2.0 before it changes the version; URL=https://...: also Homebrew's formula of the
# programs, which will be downloaded from there. .github/workflows/release.yml makes the wheels of all platforms first.
$(VENV)/.release: requirements/release.txt $(VENV)/.ready
	$(INSTALL) -r requirements/release.txt
	touch $@

release: $(VENV)/.release
	$(VENV)/bin/python release/release.py dist $(if $(URL),--url $(URL))

# The documentation as a site: build/docs/index.html.
$(VENV)/.docs: requirements/docs.txt $(VENV)/.ready
	$(INSTALL) -r requirements/docs.txt
	touch $@

docs: $(VENV)/.docs
	$(VENV)/bin/mkdocs build --strict --quiet

stubs: build $(VENV)/.test
	$(VENV)/bin/python tests/bindings/make_stubs.py python

# Coverage-guided fuzzing with clang's libFuzzer, under the address and undefined behaviour sanitizers: a short run of
# every program, the same every time; or what FUZZ names: make fuzz FUZZ="gguf=1000000 generate=3600s" (inputs or
# seconds; --record adds them to tests/figures.jsonl). llama.cpp is built once more for it. fuzz-parsers: a short run of
# those that need no llama.cpp; `make test` and `make asan` run samples of the others.
FUZZ_TARGET := fuzzers
fuzz fuzz-parsers: $(VENV)/.test
	cmake --preset fuzz --log-level=WARNING
	@cmake --build build/fuzz --target $(FUZZ_TARGET)
	PYTHONPATH=. $(VENV)/bin/python tests/fuzz/run.py --build build/fuzz $(FUZZ)
fuzz-parsers: FUZZ_TARGET := parser_fuzzers
fuzz-parsers: FUZZ := gguf pictures requests prompts constraints results

# Which small changes of FILES pass all tests of their area (tests/mutants/run.py), tried in a copy of the tree: COUNT
# of them, chosen by SEED; MUTANTS="--cpp-only": further options. Some seconds for each, after a first run of the tests.
COUNT ?= 20
SEED ?= 1
mutants: FILES := cpp/sampling cpp/speculative cpp/engine cpp/server cpp/disk_cache
mutants: $(VENV)/.test build/mutants-venv/.ready
	PYTHONPATH=. build/mutants-venv/bin/python tests/mutants/run.py $(FILES) --count $(COUNT) --seed $(SEED) $(MUTANTS)

# Mixed requests on Generators that come and go; six hours, which may be run in parts (Ctrl-C). They are added to
# tests/figures.jsonl.
SOAK_SECONDS ?= 21600
soak: build $(VENV)/.test
	PYTHONPATH=python:. $(VENV)/bin/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --record

# llama.cpp's own hand-made bad files through our reader; downloads its source package.
gguf-check: build $(VENV)/.test
	$(VENV)/bin/python tests/gguf/check_llama_cpp_files.py

# llama.cpp's own server tests, from the pinned source, against `specdec serve`.
server-check: build $(VENV)/.test
	$(VENV)/bin/python tests/server/llama_server_tests.py

# Environments of their own, of requirements/NAME.txt: build/NAME-venv.
build/%-venv/.ready: requirements/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Clients that others wrote against `specdec serve`. The table client -> works: each client of tests/server/clients in
# an environment of its own; then those with tests of their own (lm-eval, llm, langchain's), and command-line agents
# (codex, claude, aider).
CLIENTS_VENV := build/clients-venv
AGENTS_VENV := build/agents-venv
clients-check: build $(VENV)/.test $(CLIENTS_VENV)/.ready $(AGENTS_VENV)/.ready
	$(VENV)/bin/python -m tests.server.clients_table
	SPECDEC_CLIENTS="$(CURDIR)/$(CLIENTS_VENV)/bin/python" SPECDEC_AGENTS="$(CURDIR)/$(AGENTS_VENV)/bin/python" \
	  $(VENV)/bin/python -m pytest -v tests/server/test_clients.py tests/server/test_agents.py

# A checkpoint in safetensors becomes F16, then MXFP6, with llama.cpp's own script, as docs/models.md has it; torch and
# CUDA need 6 GB.
CONVERT_VENV := build/convert-venv
convert-check: build $(VENV)/.test $(CONVERT_VENV)/.ready
	SPECDEC_CONVERT="$(CURDIR)/$(CONVERT_VENV)/bin/python" $(VENV)/bin/python -m pytest -v tests/real/test_conversion.py

# Trains a head for the bundled target with torch, which PyPI's packages bring with CUDA along.
train-check: build $(VENV)/.test
	$(INSTALL) -r requirements/train.txt
	$(VENV)/bin/python -m pytest -v tests/test_train.py

# Peers on pairs made for the purpose; bench-real: on the real pair as downloaded (hours; REAL="--rounds 1" for fewer).
BENCH_BUILD = cmake --preset $(PRESET) --log-level=WARNING -DSPECDEC_PEERS=ON -DSPECDEC_BENCH=ON && \
  cmake --build $(BUILD)
bench: $(BUILD)/build.ninja $(VENV)/.test
	@$(BENCH_BUILD)
	$(VENV)/bin/python -m bench.peers.peers $(if $(QUICK),--quick) $(PEERS)
bench-real: $(BUILD)/build.ninja $(VENV)/.test
	@$(BENCH_BUILD)
	$(VENV)/bin/python -m bench.common.real_models --to "$(REAL_MODELS)"
	$(VENV)/bin/python -m bench.real_pair.real_pair --models "$(REAL_MODELS)" $(REAL)
	$(VENV)/bin/python -m bench.products.stock_types

clean:
	rm -rf build python/specdec_native/*.so
distclean: clean
	rm -rf $(VENV) .cache
