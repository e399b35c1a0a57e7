# Everything from a fresh machine to a running page: `make run DOCS=path/to/docs`. `make help` says more.
#
# The environment is built in .venv from the pins in constraints.txt, and again only when these or
# pyproject.toml change. PIP_ARGS is handed to pip, for instance to name a registry with smaller builds of torch.

PYTHON ?= python3
PORT ?= 7860
DOCS ?= docs
MODEL ?=
EXTRAS ?=
PIP_ARGS ?=
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, 1 + os.cpu_count()))')

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install $(PIP_ARGS) -c constraints.txt
TEST_HOME ?= $(or $(ANAPHORA_TEST_HOME),$(CURDIR)/.home)
PYTEST = ANAPHORA_TEST_HOME="$(TEST_HOME)" $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
TEST_MODELS := bge-small-en-v1.5 multilingual-e5-small all-minilm-l6-v2 ms-marco-minilm-l12 smollm2-135m-instruct

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install install-dev run test pytest test-extended lint describe docs docs-version lock messages clean

help: ## Say what there is
	@echo "Anaphora: chat over your own documentation."
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | \
	  awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'
	@echo
	@echo "  DOCS=path     what to serve (default: the documentation of Anaphora itself)"
	@echo "  PORT=7860     port of the page and the API"
	@echo "  MODEL=name    a name from 'anaphora models', a GGUF file or hf:OWNER/REPO/FILE.gguf, ollama:NAME, vllm, the"
	@echo "                URL of an OpenAI-compatible server, or none"
	@echo "  ANAPHORA_HOME folder of collections, models and conversations"
	@echo "  PYTHON        the interpreter to build .venv with, 3.11 or newer"
	@echo "  EXTRAS=names  what install adds, by commas: train, eval, papers, hub, chroma, milvus, redis, postgres, ray, sources, sso, slack, discord, ocr, otlp"
	@echo "  PIP_ARGS      further arguments for pip install"
	@echo "  WORKERS       how many processes share the tests (default: one more than processors, at most four)"
	@echo "  PYTEST_ARGS   further arguments for pytest, for instance -n0 -x tests/index"

install: $(VENV)/.installed ## Set up .venv, with EXTRAS if any are named
	@$(if $(EXTRAS),$(PIP) --quiet -e '.[$(EXTRAS)]')

install-dev: $(VENV)/.installed-dev ## Set up .venv with what the tests need

ifeq ($(DOCS),docs)
run: export ANAPHORA_SERVER__QUESTIONS ?= {"docs": ["Which files can it read?", "Is a GPU needed?", \
  "Can a file crash the server?", "Does Anaphora send anything out?"]}
endif
run: $(VENV)/.installed ## Fetch models, index DOCS and serve the page
	@$(BIN)/anaphora serve --docs "$(DOCS)" --port "$(PORT)" $(if $(MODEL),--model "$(MODEL)")

test: $(VENV)/.installed-dev ## Lint, type-check and test
	@$(MAKE) --no-print-directory -j2 lint pytest

pytest:
	@$(BIN)/anaphora --home "$(TEST_HOME)" models fetch $(TEST_MODELS)
	$(PYTEST) -m "not extended" $(PYTEST_ARGS)

test-extended: $(VENV)/.installed-dev ## Kill, damage, fuzz and cluster tests, which `test` leaves out
	@$(BIN)/anaphora --home "$(TEST_HOME)" models fetch $(TEST_MODELS)
	$(PYTEST) -m extended $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

describe: $(VENV)/.installed ## Write docs/operate/configuration.md and docs/operate/openapi.json from the code
	@$(BIN)/anaphora config docs
	@$(BIN)/anaphora config openapi

docs: $(VENV)/bin/python ## Build the documentation as a site in build/site, with the chat of a server at WIDGET (and WIDGET_KEY) or a recorded one
	@$(PIP) --quiet "mkdocs-material>=9.6,<10"
	@rm -rf build/pages && mkdir -p build/pages
	@git ls-files -z 'docs/*.md' '*/README.md' 'papers/*/tables.md' '[A-Z]*.md' LICENSE docs/images docs/examples docs/operate/openapi.json | xargs -0 tar cf - | tar xf - -C build/pages
	@grep -v actions/workflows README.md > build/pages/README.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>build/site.log || { grep -v INFO build/site.log; exit 1; }
	@echo "The site lies in build/site: open build/site/index.html."

docs-version: docs ## Add the site of VERSION to the versions on the branch gh-pages, as `latest`
	@test -n "$(VERSION)" || { echo "say which: make docs-version VERSION=0.1"; exit 2; }
	@$(PIP) --quiet "mike>=2.1,<3"
	@export NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH"; mike deploy --update-aliases "$(VERSION)" latest && mike set-default latest

lock: $(VENV)/bin/python ## Write deploy/requirements.lock, by whose hashes the image installs, from the pins
	@$(PIP) --quiet "uv>=0.9"
	@$(BIN)/uv pip compile --quiet pyproject.toml --extra standard --extra postgres --extra sources -c constraints.txt \
		--universal --python-version 3.11.9 --generate-hashes --no-header --no-annotate --no-emit-index-url -o deploy/requirements.lock >/dev/null

messages: $(VENV)/.installed-dev ## Bring the translations' catalogues up to date with the code; new messages are empty there
	@$(BIN)/pybabel -q extract -F pyproject.toml -k message -k t -k tn:1,2 --no-location -o text/locale/anaphora.pot server ui plugins
	@$(BIN)/pybabel -q update -D anaphora -d text/locale -i text/locale/anaphora.pot -w 120 --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date
	@rm text/locale/anaphora.pot

clean: ## Remove .venv and caches; collections and fetched models stay
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.home/*' -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@command -v "$(PYTHON)" >/dev/null || \
	  { echo "There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Anaphora needs Python 3.11 or newer, and $(PYTHON) is $$("$(PYTHON)" -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "The environment could not be made. On Debian and Ubuntu it needs: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV): about a minute, 0.9 GB"
	@rm -rf *.egg-info
	@$(PIP) --quiet -e '.[standard]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV) with what the tests need: a minute or two, some two gigabytes"
	@rm -rf *.egg-info
	@$(PIP) --quiet -e '.[dev]'
	@touch $(VENV)/.installed $@
