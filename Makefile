# Two commands matter: `make rollout` (a real rollout of a real model) and `make test`.
# Everything is installed into $(VENV); a stamp there says for which pyproject.toml and sources.

PYTHON ?= python3
VENV ?= .venv
OUT ?= out/rollout-$(shell date +%Y%m%d-%H%M%S)

BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard csrc/*.* csrc/*/*.*)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

ROLLOUT_FLAGS ?= --prompts reasoning-gym:chain_sum,spell_backward,number_sorting,letter_counting \
	--num-prompts 8 --group-size 8 --max-tokens 192 --instances 2 --kv-tokens 4096

.PHONY: rollout test lint slim native clean

rollout: $(VENV)/.installed
	$(BIN)/seer rollout $(ROLLOUT_FLAGS) --out $(OUT)
	$(BIN)/seer report $(OUT) --out $(OUT)/report.html

test: $(VENV)/.installed-dev
	$(BIN)/seer model
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The base install alone: every module that needs no extra imports, and none drags in torch.
slim: $(VENV)/.installed-dev
	rm -rf build/slim
	$(PYTHON) -m venv build/slim
	build/slim/bin/python -m pip install --quiet --disable-pip-version-check .
	build/slim/bin/python scripts/check_slim_install.py

# The suffix tree's C++ under address and undefined-behaviour sanitizers.
native:
	scripts/check_native.sh

clean:
	rm -rf $(VENV) build out

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "installing seer with the local engine into $(VENV) (once, a few minutes) ..."
	$(PIP) --editable '.[local,tasks]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "installing seer with everything its tests need into $(VENV) (once, a few minutes) ..."
	$(PIP) --editable '.[local,tasks,trl,dev]'
	@touch $@ $(VENV)/.installed
