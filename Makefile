# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# They need Python 3.10+, make and a package index. No C compiler is assumed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# bytecode is kept: without it, each of the hundreds of processes in the tests would compile the package again
export PYTHONDONTWRITEBYTECODE :=
PIP    := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: demo test checks lint types unit test-long test-slow bench bench-mcu accuracy soak fuzz docs clean

demo: $(VENV)/.demo
	$(BIN)/insitu demo

# lint and types run in parallel with the tests
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 checks unit

checks: lint types

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/pyright

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not long" --durations=20

# what takes long, by measured time (tests/longest.py): CI runs it after `make test`
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "long and not slow" --durations=20

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m slow

# by hand: `python -m bench.same` shows that a change of the compiler keeps its results, `python -m bench.compile` how
# long compiling takes, compared with another checkout
bench: $(VENV)/.dev
	$(BIN)/python -m bench.inference
	$(BIN)/python -m bench.training

bench-mcu: $(VENV)/.dev
	$(BIN)/python -m bench.mcu

accuracy: $(VENV)/.dev
	$(BIN)/python -m bench.watch
	$(BIN)/python -m bench.accuracy
	$(BIN)/python -m bench.gradients --add bench/accuracy.json
	$(BIN)/python -m bench.found
	$(BIN)/python -m bench.auto
	$(BIN)/python -m bench.continual

# a day of a device's life in ten minutes at most, and a thousand kills
soak: $(VENV)/.dev
	$(BIN)/python -m bench.soak

fuzz: $(VENV)/.dev
	$(BIN)/python -m bench.fuzz

docs: $(VENV)/.dev
	$(BIN)/python -m insitu.reports.ops_page > docs/ops.md
	$(BIN)/python -m pytest tests/test_docs.py tests/codegen --update-golden

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e ".[demo]"
	touch $@

# torch first and pinned: unpinned, the newest build brings gigabytes of GPU libraries with it
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) torch==2.13.0
	$(PIP) -e ".[dev]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist report.html
