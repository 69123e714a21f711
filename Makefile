# Everything a fresh machine needs is git, Python >= 3.10 and make. ARGS goes to the command: make probe ARGS="--effort quick"

.DEFAULT_GOAL := help
.PHONY: help probe test check lint types plots calibrate benchmarks clean

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
RUN := $(VENV)/bin/python
BENCHMARKS := tracing flop_counters prediction gemm_search cpu_triad
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort

probe: $(VENV)/.installed  ## Set up, then measure what this machine can do
	$(RUN) -m roofline.probe $(ARGS)

test: lint types $(VENV)/.tested  ## Set up, then lint, check types and run every test that needs no GPU
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadgroup -m "not gpu" $(ARGS)

check: lint types  ## Lint and check types

lint: $(VENV)/.tested  ## Lint
	$(RUN) -m ruff check .

types: $(VENV)/.tested  ## Check types
	$(RUN) -m mypy

plots: $(VENV)/.tested  ## Draw every figure in plots/ again
	$(RUN) plots/make.py $(ARGS)

calibrate: $(VENV)/.tested  ## Fit the constants of the prediction again
	$(RUN) benchmarks/calibrate.py $(ARGS)

benchmarks: $(VENV)/.tested  ## How fast and how accurate the tool itself is
	for name in $(BENCHMARKS); do $(RUN) benchmarks/$$name.py || exit 1; done

clean:  ## Remove what the other commands built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The package and, with an NVIDIA driver, the CuPy that fits it. A failing CuPy is reported by the probe, not here.
$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "roofline needs Python >= 3.10; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$(PYTHON) is older than Python 3.10" >&2; exit 1; }
	@echo "Setting up $(VENV): several GB the first time"
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@extra=$$($(RUN) -c 'from roofline.env import cupy_extra, driver_cuda_version; print(cupy_extra(driver_cuda_version()) or "")') && \
	  if test -n "$$extra"; then $(PIP) --editable ".[$$extra]" || echo "CuPy ($$extra) could not be installed" >&2; fi
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(PIP) --editable ".[test,models,dev,audit]"
	@touch $@
