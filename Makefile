# make demo: set up, build, generate with the bundled pair.   make test: set up, build, run every test.
# make bench: against other engines (hours; QUICK=1: minutes; PEERS="--pairs 1.1b": options of bench/peers.py).
# A second run is incremental; `make clean` keeps llama.cpp's build in .cache, `make distclean` drops that too.

VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
PYTHON ?= python3
PRESET ?= default
BUILD := build/$(PRESET)

.PHONY: all build demo test lint stubs bench clean distclean
.DEFAULT_GOAL := all
all: build

$(VENV)/.ready: requirements/build.txt requirements/test.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/build.txt -r requirements/test.txt
	$(VENV)/bin/python -c "import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'specdec_native.pth').write_text('$(CURDIR)/python\n')"
	touch $@

$(BUILD)/build.ninja: $(VENV)/.ready CMakePresets.json
	cmake --preset $(PRESET) --log-level=WARNING

build: $(BUILD)/build.ninja
	@cmake --build $(BUILD)

demo: build
	@$(BUILD)/specdec generate --color always -p "def bfs(graph, start):" -n 160 --temp 0.7 --seed 11 -k 7

$(VENV)/.ray: requirements/ray.txt $(VENV)/.ready
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/ray.txt || \
	  echo "no ray for this Python or platform: its test is skipped"
	touch $@

test: build $(VENV)/.ray
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j 2
	$(VENV)/bin/python -m pytest

lint: build
	ruff check . && ruff format --check .
	git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
	mypy

stubs: build
	$(VENV)/bin/python tests/bindings/make_stubs.py python

bench: $(BUILD)/build.ninja
	cmake --preset $(PRESET) --log-level=WARNING -DSPECDEC_PEERS=ON
	@cmake --build $(BUILD)
	$(VENV)/bin/python bench/peers.py $(if $(QUICK),--quick) $(PEERS)

clean:
	rm -rf build python/specdec_native/*.so
distclean: clean
	rm -rf $(VENV) .cache
