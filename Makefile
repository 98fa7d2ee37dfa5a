# Every target makes or refreshes the environment .venv first, so that a fresh clone needs one command.

# The Python that .venv is made from. Not set: the first of python3, python3.13, python3.12 and python3.11
# that is new enough. Set, as in `make test PYTHON=python3.12`: that one or none.
PYTHON ?=

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m

# The tests run in two processes; more than one thread in each would only make them wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(RUN) pytest -n 2

# pyright would otherwise ask the network for a newer version of itself.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help demo test test-all lint bench docs browser

help:
	@echo "make demo      a corpus, a small rela-g model trained on it, its translations, their BLEU and a look inside; minutes"
	@echo "make test      lint, types and all tests but the long ones"
	@echo "make test-all  the long ones too; writes docs/test-all.md"
	@echo "make lint      style and types alone"
	@echo "make bench     speed beside torch's own attention at lengths 32, 128 and 512"
	@echo "make docs      runs the Python and bash blocks of README.md and docs/"

demo: $(VENV)/.stamp
	$(BIN)/rela demo

test: lint browser
	$(PYTEST) -m "not slow"

test-all: lint browser
	OMP_NUM_THREADS=1 $(BIN)/python tools/test_all.py -n 2

lint: $(VENV)/.stamp
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) pyright

# The microscope's page is tested in a browser, when there is one or it can be had.
browser:
	@tools/get-browser

bench: $(VENV)/.stamp
	$(BIN)/rela bench attention --lengths 32,128,512

docs: $(VENV)/.stamp
	$(PYTEST) tests/docs

# The stamp is written last, so an environment that was cut off halfway is never taken for a whole one.
# One that was moved, or whose Python is gone, has a stamp but does not work: --check finds it.
$(VENV)/.stamp: pyproject.toml constraints.txt
	tools/make-venv $(VENV) $(PYTHON)

ifneq ($(shell tools/make-venv --check $(VENV) $(PYTHON)),whole)
.PHONY: $(VENV)/.stamp
endif
