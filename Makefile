# Two commands do everything on a fresh machine; each sets up .venv first.
#   make sweep   the main job on whatever is here: measured on the GPU, or offline for gfx950
#   make test    every check: format, lint, types, tests

PYTHON ?= python3
SHAPES ?= amd-mxfp4-mm
OUT ?= mxtune-out

.PHONY: sweep test clean

sweep: .venv/ready
	.venv/bin/mxtune sweep --shapes $(SHAPES) --out $(OUT)

test: .venv/ready-to-test
	PATH="$(CURDIR)/.venv/bin:$$PATH" ./check.sh

.venv/ready: setup.sh pyproject.toml constraints.txt
	PYTHON=$(PYTHON) ./setup.sh

.venv/ready-to-test: .venv/ready
	PYTHON=$(PYTHON) ./setup.sh --group dev

clean:
	rm -rf .venv .pkg build dist *.egg-info
