.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# This module and those nested in it; tools/ only pins the tools. Each builds by its own go.mod, as its users will
# build it; go.work is for editors.
MODULES := . $(filter-out tools,$(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod)))
export GOWORK := off

TOOL := tool -modfile=$(CURDIR)/tools/go.mod

# A server other than the one on PATH: a binary, or a folder that packages were unpacked into.
ifdef SERVER
export REDISTEST_SERVER := $(abspath $(SERVER))
RUN_ON := --server='$(abspath $(SERVER))'
endif

ARGS ?=
IN ?= .
BENCH ?= .
COUNT ?= 10
# Runs, not seconds: in Go 1.26 the end of its time may fail a fuzz test that found nothing (go.dev/issue/75804).
FUZZTIME ?= 1000000x

# $(call each,COMMAND) is a line of recipe for each module, which runs that go command there.
define newline


endef
each = $(foreach m,$(MODULES),go -C $m $1$(newline))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## A cluster, a load and a failure, to look at; ARGS=... goes to the demo
	cd cmd/shardlimit && go run . demo $(RUN_ON) $(ARGS)

.PHONY: compare
compare: ## What each algorithm admits of the same calls; ARGS=--json for scripts
	cd cmd/shardlimit && go run . compare $(RUN_ON) $(ARGS)

.PHONY: check
check: lint test race ## All that CI runs

.PHONY: test
test: deps ## All tests, shuffled; SERVER=<folder or binary>: on another Redis or Valkey
	$(call each,test -shuffle=on ./...)
	@tools/need-redis.sh -n

.PHONY: race
race: deps ## All tests with the race detector; needs a C compiler
	@echo '#include <stdlib.h>' | $$(go env CC) -E -x c - >/dev/null 2>&1 || { \
		echo 'make race: needs a C compiler and its headers (Debian: apt-get install gcc libc6-dev)' >&2; \
		exit 1; \
	}
	$(call each,test -race -shuffle=on ./...)
	@tools/need-redis.sh -n

.PHONY: lint
lint: ## Vet, lint and check the layout; fails where a go.mod isn't tidy
	$(call each,mod tidy -diff)
	$(call each,$(TOOL) golangci-lint run)

.PHONY: fmt
fmt: ## Format, and bring old idioms up to date
	$(call each,fix ./...)
	$(call each,$(TOOL) golangci-lint fmt)

.PHONY: fuzz
fuzz: ## Each fuzz test, FUZZTIME=1000000x runs
	@grep -rEo '^func Fuzz\w+' --include='*_test.go' . | sort | while IFS=: read -r file func; do \
		echo "$$file: $${func#func }"; \
		go -C "$$(dirname "$$file")" test -run='^$$' -fuzz="^$${func#func }\$$" -fuzztime=$(FUZZTIME) .; \
	done

.PHONY: bench
bench: ## Benchmarks, COUNT=10 runs, for benchstat; BENCH=<regexp>, IN=<module>
	go -C $(IN) test -run='^$$' -bench='$(BENCH)' -count=$(COUNT) ./... | tee bench.txt
	go $(TOOL) benchstat bench.txt

.PHONY: memory
memory: ## Bytes of Redis that a subject takes, beside other limiters
	go -C bench run ./memory $(ARGS)

.PHONY: deps
deps: ## See to a redis-server for the tests: install it where that can be done
	@tools/need-redis.sh
