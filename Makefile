# `make quickstart` and `make test` set up .venv when it is missing, with uv where it is installed, else with pip. All cores compile what pip
# would compile on one; files that some packages hold for other Pythons do not compile. Tests start many processes: the bytecode of what they
# import is kept, too.
PYTHON ?= python3
BIN := .venv/bin
UV := $(shell command -v uv)
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(PIP) --no-compile) -c constraints.txt
.DEFAULT_GOAL := help

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(if $(UV),$(UV) venv --quiet --seed --python $(PYTHON) .venv,$(PYTHON) -m venv .venv)
	$(if $(UV),,$(PIP) --upgrade 'pip>=25')
	PYTHONWARNINGS=ignore $(INSTALL) -e '.[offline,plots,test]'
	$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null || true
	touch $@

# `##@` begins a group of `make help`, `##` says what a target does.
help:
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A run of each task; RUNS="runs/a runs/b" names others.
RUNS ?= $(wildcard runs/goemotions_laa_ce runs/emotion6_esa runs/meld_bilstm_attention runs/sentihood_qacg_aux)

.PHONY: help quickstart ready test test-book test-full compatibility endurance nightly lint format docs bench bench-full study release
##@ Try it
# Labels of one's own, in a minute: what the ready model says of five support tickets, a model trained on 300 labelled ones and measured on
# 120 others, what that says of the five, and the same from a process that imports transformers alone. Each step prints its seconds.
TICKETS := examples/tickets
SENTENCES := "I have paid twice for May." \
  "The link to reset my password never reaches me." \
  "The screen stays black after the update." \
  "My parcel is three days late." \
  "Please end my contract in December."
CLOCK := .venv/clock
TOOK = @now=$$(date +%s); echo "$(1): $$((now - $$(cat $(CLOCK)))) s"; echo; echo $$now > $(CLOCK)

quickstart: .venv/installed ## sets up .venv, then trains a model on five new labels, before and after
	rm -rf runs/tickets
	@date +%s > $(CLOCK)
	$(BIN)/hf-emotion predict goemotions $(SENTENCES)
	$(call TOOK,before: the ready model knows emotions and none of the five labels)
	$(BIN)/hf-emotion train $(TICKETS)/recipe.yaml --data-dir $(TICKETS)
	@$(BIN)/python -c 'import collections, csv; train, test = ([row["label"] for row in csv.DictReader(open(f"$(TICKETS)/{part}.csv"))] for part in ("train", "test")); \
	  [(label, _)] = collections.Counter(train).most_common(1); print(f"beside it: always the most frequent label, {label}: accuracy {test.count(label) / len(test):.4f}")'
	$(call TOOK,trained and measured)
	$(BIN)/hf-emotion predict runs/tickets $(SENTENCES)
	$(call TOOK,after)
	$(BIN)/python $(TICKETS)/transformers_alone.py runs/tickets "I have paid twice for May."
	$(call TOOK,without hf-emotion)

##@ Train and publish
# Trains the packaged ready models anew. Also trains, only for this user, the models of corpora whose terms do not let us ship a model.
# DATA names the folder with the corpora.
READY ?= $(or $(HF_EMOTION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hf-emotion)/ready
ready: .venv/installed ## trains the packaged ready models anew, with DATA=FOLDER
	rm -rf runs/ready_goemotions runs/ready_goemotions_full runs/ready_goemotions_teacher runs/ready_goemotions-mpnet runs/ready_dialogues runs/ready_dialogues_full runs/ready_reviews runs/ready_reviews_full runs/ready_aspects runs/ready_aspects_full runs/ready_replies runs/ready_languages build/ready
	$(BIN)/hf-emotion train ready/goemotions_teacher $(if $(DATA),--data-dir "$(DATA)")
	$(BIN)/hf-emotion train ready/goemotions-mpnet $(if $(DATA),--data-dir "$(DATA)")
	$(BIN)/hf-emotion train ready/goemotions_full $(if $(DATA),--data-dir "$(DATA)")
	$(BIN)/hf-emotion train ready/goemotions $(if $(DATA),--data-dir "$(DATA)")
	$(BIN)/hf-emotion train ready/dialogues_full
	$(BIN)/hf-emotion train ready/dialogues
	$(BIN)/hf-emotion train ready/reviews_full
	$(BIN)/hf-emotion train ready/reviews
	$(BIN)/hf-emotion train ready/aspects_full
	$(BIN)/hf-emotion train ready/aspects
	$(BIN)/hf-emotion train ready/replies
	$(BIN)/hf-emotion train ready/languages $(if $(DATA),--data-dir "$(DATA)")
	for name in goemotions goemotions-mpnet dialogues reviews aspects replies languages; do \
	  $(BIN)/python -m benchmarks.study ready runs/ready_$$name --output build/ready/$$name --notes docs/ready/$$name.yaml $(if $(DATA),--data-dir "$(DATA)") || exit 1; \
	done
	for name in meld sentihood; do \
	  rm -rf "$(READY)/$$name"; \
	  $(BIN)/hf-emotion train ready/$$name --output "$(READY)/$$name" $(if $(DATA),--data-dir "$(DATA)") || exit 1; \
	done
	@echo 'build/ready holds the new models; copy them to hf_emotion/ready to ship them.'

release: .venv/installed ## folders to publish from the finished runs RUNS, into dist/release
	@test -n "$(RUNS)" || { echo 'make release: none of the default runs is in runs/; train them, or name others: make release RUNS="runs/a runs/b"'; exit 2; }
	rm -rf dist/release
	$(BIN)/hf-emotion release $(RUNS) --output dist/release

##@ Before a commit
# What one runs before a commit. -rs lists what is skipped, and why.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rs -n 2
test: lint ## style, types and the tests that take seconds
	$(PYTEST) --dist loadfile -m "not slow and not book and not ray and not release"

# The pages of the book, in two files, Ray, and what is published: the wheel, exported models, models without the library.
test-book: .venv/installed ## every block of README and book, Ray, the wheel, published models
	$(PYTEST) --dist loadfile -m "(book or ray or release) and not slow"

# Also what takes minutes or starts many processes.
test-full: test test-book ## all of these, and the slow tests
	$(PYTEST) --dist loadfile -m slow

lint: .venv/installed ## style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p build/types/hf_emotion && ln -sfn ../../../modeling build/types/hf_emotion/modeling
	$(BIN)/python -m mypy

format: .venv/installed ## mends style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Builds the book into build/docs; only the first installation needs the network.
.venv/docs: .venv/installed
	$(INSTALL) -e '.[docs]'
	touch $@

docs: .venv/docs ## the book, into build/docs, and the parts of docs/reference that the program writes
	$(BIN)/python docs/_ext/written_parts.py
	$(BIN)/sphinx-build -W --keep-going -b html docs build/docs

##@ Now and then
# Provokes faults for twenty minutes: kills trainings and jobs, shares a predictor among threads, tries files and arguments of all kinds. Writes
# benchmarks/dependability.json, from which the book takes its figures.
endurance: .venv/installed ## provokes faults for twenty minutes
	$(BIN)/python -m tests.endurance

# The models and replies with the oldest and the newest transformers that pyproject.toml allows, beside the installed one.
compatibility: .venv/installed ## the models with the oldest and the newest transformers
	$(BIN)/python tests/compatibility.py build/compatibility

# Runs in full what `make test` runs in its smallest form: the faults, the record of behaviour, and the benchmarks in their small sizes.
# benchmarks/RESULTS.md does not change.
nightly: endurance compatibility ## both of these, and the benchmarks in small
	mkdir -p build/nightly
	$(BIN)/python tests/behaviour_record.py record build/nightly/behaviour.json
	$(BIN)/python -m benchmarks.run_all --results build/nightly/results.json

##@ Measure
# Small sizes; writes build/bench/RESULTS.md, so that the committed figures stay.
bench: .venv/installed ## speed and memory beside stock transformers, in small sizes
	mkdir -p build/bench
	$(BIN)/python -m benchmarks.run_all --results build/bench/results.json

# Writes benchmarks/RESULTS.md. DATA: the folder with the corpora. CHECKPOINT and TARGETED: trained models for emotions and for aspects.
bench-full: .venv/installed ## the same in full; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run_all --full $(if $(DATA),--data-dir "$(DATA)") \
	  $(if $(CHECKPOINT),--checkpoint "$(CHECKPOINT)") $(if $(TARGETED),--targeted "$(TARGETED)")

# Lists the runs of benchmarks/study.yaml with their minutes, runs those that are not on record, and writes the tables anew. LIST=1 only
# lists. ENCODERS="mpnet=FOLDER e5=FOLDER": encoders that are not to come from the Hub.
study: .venv/installed ## trains what benchmarks/study.yaml lists and no record has; LIST=1 lists it
	$(BIN)/python -m benchmarks.study run benchmarks/study.yaml $(if $(LIST),--list) $(if $(DATA),--data-dir "$(DATA)") $(foreach e,$(ENCODERS),--encoder "$(e)")
	$(if $(LIST),,$(BIN)/python -m benchmarks.study tables)
