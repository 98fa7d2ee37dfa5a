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

BENCH_PARTS := attention sublayer memory decode length step train train-base serve serve-base

.NOTPARALLEL: # what is timed wants the machine for itself

.PHONY: help demo test test-all lint bench $(BENCH_PARTS:%=bench-%) docs browser

help:
	@echo "make demo      a corpus, a small rela-g model trained on it, its translations, their BLEU and a look inside; minutes"
	@echo "make test      lint, types and all tests but the long ones"
	@echo "make test-all  the long ones too; writes docs/test-all.md"
	@echo "make lint      style and types alone"
	@echo "make bench     speed and memory beside others; makes docs/benchmarks.md; most of an hour"
	@echo "make docs      builds the documentation into docs/_build, and runs its Python and bash blocks"

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

# Each part keeps what it has measured when it is cut off, and goes on from there. A part that is done is measured
# anew by the next `make bench`; `make bench-decode` measures one part alone.
BENCH := $(BIN)/rela bench
BENCH_CORPUS ?= multi30k-en-de
BENCH_MODEL ?= runs/demo-rela-g/training
BENCH_TEXT ?= runs/demo-rela-g/corpus/test.en

bench: $(BENCH_PARTS:%=bench-%)
	$(BIN)/python tools/make_documents.py

bench-attention: $(VENV)/.stamp | $(BENCH_MODEL)
	$(BENCH) attention --no-sublayer --model $(BENCH_MODEL) --resume --json bench/results/attention.json

bench-sublayer: $(VENV)/.stamp
	$(BENCH) attention --no-core --lengths 32,128,512 --rounds 21 --resume --json bench/results/sublayer.json

bench-memory: $(VENV)/.stamp
	$(BENCH) memory --resume --json bench/results/memory.json

bench-decode: $(VENV)/.stamp
	$(BENCH) decode --threads 2 --rounds 15 --resume --json bench/results/decode.json

bench-length: $(VENV)/.stamp
	$(BENCH) length --corpus $(BENCH_CORPUS) --resume --json bench/results/length.json

bench-step: $(VENV)/.stamp
	$(BENCH) train --no-peer --corpus $(BENCH_CORPUS) --rounds 21 --resume --json bench/results/step.json

bench-train: $(VENV)/.stamp
	$(BENCH) train --no-step --corpus $(BENCH_CORPUS) --updates 20 --resume --json bench/results/train.json

bench-train-base: $(VENV)/.stamp
	$(BENCH) train --no-step --corpus $(BENCH_CORPUS) --size base --tokens 1024 --updates 20 --resume \
		--json bench/results/train-base.json

bench-serve: $(VENV)/.stamp | $(BENCH_MODEL)
	$(BENCH) serve demo=$(BENCH_MODEL) --src $(BENCH_TEXT) --beam 4 --beam 1 --json bench/results/serve.json

bench-serve-base: $(VENV)/.stamp | $(BENCH_MODEL) runs/bench-base/model
	$(BENCH) serve base=runs/bench-base --src $(BENCH_TEXT) --beam 1 --beam 4 --requests 4000 --threads 2 \
		--json bench/results/serve-base.json

# The model whose queries, keys and values the kernels are timed on.
runs/demo-rela-g/training: | $(VENV)/.stamp
	$(BIN)/rela demo

# A Transformer as large as the paper's, for the work that it does.
runs/bench-base/model: | $(VENV)/.stamp $(BENCH_MODEL)
	rm -rf runs/bench-base
	$(BIN)/rela train configs/grammar.yaml --set store=runs/demo-rela-g/store --run runs/bench-base --set model.size=base \
		--set budget.tokens=1 --set validation.bleu=false --set validation.max_sentences=10

docs: $(VENV)/.stamp
	$(RUN) sphinx -q -W --keep-going -b html docs docs/_build
	$(PYTEST) tests/docs

# The stamp is written last, so an environment that was cut off halfway is never taken for a whole one.
# One that was moved, or whose Python is gone, has a stamp but does not work: --check finds it.
$(VENV)/.stamp: pyproject.toml constraints.txt
	tools/make-venv $(VENV) $(PYTHON)

ifneq ($(shell tools/make-venv --check $(VENV) $(PYTHON)),whole)
.PHONY: $(VENV)/.stamp
endif
