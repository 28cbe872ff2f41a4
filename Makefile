.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# This module and those nested in it; tools/ only pins the tools. Each builds by its own go.mod, as its users will
# build it; go.work is for editors.
MODULES := . $(filter-out tools,$(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod)))
export GOWORK := off

TOOL := tool -modfile=$(CURDIR)/tools/go.mod

# A server other than the one on PATH: a binary, a folder that packages were unpacked into, another name on PATH, or else
# an image.
ifdef SERVER
server := $(or $(abspath $(wildcard $(SERVER))),$(shell command -v '$(SERVER)'))
ifneq ($(server),)
export REDISTEST_LAUNCHER := processes
export REDISTEST_SERVER := $(server)
RUN_ON := --server='$(server)'
else
export REDISTEST_LAUNCHER := containers
export REDISTEST_IMAGE := $(SERVER)
RUN_ON := --image='$(SERVER)'
endif
endif

# Where other servers are kept, and the image that is made of one: nothing is pulled for it.
SERVERS := bin/servers
IMAGE := local/redis:8.0

# What the daemon's image is called.
DAEMON ?= local/shardlimit

ARGS ?=
IN ?= .
BENCH ?= .
COUNT ?= 10
SOAK ?= 10m
LEASES ?= 16
FLOOD ?= 10000000
TORTURE ?= 20000000
SEED ?= 0
# Runs, not seconds: in Go 1.26 the end of its time may fail a fuzz test that found nothing (go.dev/issue/75804).
FUZZTIME ?= 1000000x

# Not vetted again: lint does, by more analyzers. Tests of one package wait more than they compute.
TESTING = test -vet=off -shuffle=on -timeout=30m -parallel=$(AT_ONCE)
AT_ONCE := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# $(call each,COMMAND) is a line of recipe for each module, which runs that go command there.
define newline


endef
each = $(foreach m,$(MODULES),go -C $m $1$(newline))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## A cluster, a load and a failure, to look at; ARGS=... goes to the demo
	cd cmd/shardlimit && go run . demo $(RUN_ON) $(ARGS)

.PHONY: compare
compare: ## What each algorithm admits of the same calls; ARGS=--json for scripts
	cd cmd/shardlimit && go run . compare $(RUN_ON) $(ARGS)

# Lint computes where tests wait, and leaves them what they want.
.PHONY: check
check: ## Lint, tests, and tests with the race detector, on the installed server
	tools/beside.sh 'nice -n 19 $(MAKE) lint' $(MAKE) test race

.PHONY: test
test: deps ## All tests, shuffled; SERVER=<folder, binary or image>: on another Redis or Valkey
	$(call each,$(TESTING) ./...)
	@tools/need-redis.sh -n

# The packages that run a cluster, or decide on one: what another server may change.
ON_CLUSTER := . ./cluster ./scripts ./internal/rediscluster/... ./internal/redistest

# The tests whose clients are programs of others.
E2E := Proxies|Prometheus|Page

.PHONY: test-cluster
test-cluster: deps ## The tests on a cluster alone; SERVER= as for test
	go $(TESTING) $(ON_CLUSTER)

.PHONY: test-servers
test-servers: servers ## The same by Valkey 8.1, and by Redis 8.0 in containers
	$(MAKE) test-cluster SERVER=$(SERVERS)/valkey-8.1
	$(MAKE) test-cluster SERVER=$(IMAGE)

.PHONY: picture
picture: deps ## docs/page.png anew, in two minutes; needs Chromium
	go -C cmd/shardlimit test -tags=e2e -run='^TestPageShowsAKilledPrimary' . -args -page.picture=$(CURDIR)/docs/page.png

.PHONY: race
race: deps ## All tests with the race detector; needs a C compiler
	@echo '#include <stdlib.h>' | $$(go env CC) -E -x c - >/dev/null 2>&1 || { \
		echo 'make race: needs a C compiler and its headers (Debian: apt-get install gcc libc6-dev)' >&2; \
		exit 1; \
	}
	$(call each,$(TESTING) -race ./...)
	@tools/need-redis.sh -n

.PHONY: lint
lint: ## Vet, lint and check the layout; fails where a go.mod isn't tidy
	$(call each,mod tidy -diff)
	$(call each,$(TOOL) golangci-lint run)

.PHONY: rules
rules: ## Check and test the alert rules; needs promtool (Debian: apt-get install prometheus)
	promtool check rules deploy/prometheus/shardlimit.rules.yml
	promtool test rules deploy/prometheus/shardlimit.test.yml

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

.PHONY: e2e
e2e: deps ## Other programs as clients of a daemon on a cluster; needs nginx, caddy, prometheus, chromium (Debian: apt-get install)
	go -C cmd/shardlimit test -count=1 -v -tags=e2e -run='^Test($(E2E))' .

.PHONY: e2e-docker
e2e-docker: servers ## The image on a cluster in containers, as deploy/docker has it; takes Docker and Compose
	REDIS_IMAGE='$(IMAGE)' go -C cmd/shardlimit test -count=1 -v -tags=e2e -run='^TestComposeRunsTheImage' .

.PHONY: image
image: ## A local image of the program, out of no registry, called DAEMON=local/shardlimit; takes Docker
	@mkdir -p bin/image
	CGO_ENABLED=0 go -C cmd/shardlimit build -trimpath -ldflags='-s -w' -o $(CURDIR)/bin/image/shardlimit .
	docker build -t '$(DAEMON)' -f deploy/docker/Dockerfile bin/image

.PHONY: bench
bench: ## Decisions beside the same script sent by Script.Run, in one run
	go -C bench run ./transport $(ARGS)

.PHONY: bench-hotkey
bench-hotkey: ## One hot key: beside rate.Limiter, shared by instances, beside Script.Run; 7 min at rest
	go test -run='^$$' -bench='^BenchmarkDecide$$' -benchtime=1000000x ./hotkey
	go test -run='^$$' -bench='^BenchmarkAllowHere$$' -benchtime=3000000x .
	go -C bench run ./hotkey $(ARGS)

.PHONY: load
load: ## What a daemon answers: one hot key beside 10,000 keys; ARGS=--rounds=...
	go -C cmd/shardlimit build -o $(CURDIR)/bin/shardlimit .
	go -C bench run ./load --daemon=$(CURDIR)/bin/shardlimit $(ARGS)

.PHONY: faults
faults: ## Every fault under load beside a control, 2.5 min on a machine at rest; ARGS=--only=...
	go -C bench run ./faults $(ARGS)

.PHONY: soak
soak: ## Random faults for SOAK=10m, with the race detector; SEED= to go by one again
	go test -race -run='^TestRandomFaults$$' -timeout=0 ./internal/drill -v -args -drill.for=$(SOAK) -drill.seed=$(SEED)

.PHONY: leases
leases: ## The ledger of leases at length: LEASES=16 instances for SOAK; SEED= to go by one again
	go test -run='^Test(EveryLeasedUnit|Leases|UnitsOfAKilled)' -timeout=0 -v . -args -crowd.for=$(SOAK) -crowd.processes=$(LEASES) -crowd.seed=$(SEED)

.PHONY: flood
flood: ## FLOOD=10000000 subjects through one process: its memory, and its leases
	go test -run='^TestAFlood' -count=1 -timeout=0 -v . -args -flood.subjects=$(FLOOD)

.PHONY: torture
torture: ## Leases lent, spent, refunded, lost, dropped, by TORTURE=20000000 requests, with the race detector
	go test -race -run='^TestNoUnitIsLost' -count=1 -timeout=0 -v ./hotkey -args -torture.operations=$(TORTURE)

.PHONY: microbench
microbench: ## Benchmarks, COUNT=10 runs, for benchstat; BENCH=<regexp>, IN=<module>
	go -C $(IN) test -run='^$$' -bench='$(BENCH)' -count=$(COUNT) ./... | tee bench.txt
	go $(TOOL) benchstat bench.txt

.PHONY: memory
memory: ## Bytes of Redis that a subject takes, beside other limiters
	go -C bench run ./memory $(ARGS)

.PHONY: servers
servers: $(SERVERS)/valkey-8.1 $(SERVERS)/redis-8.0 ## What test-servers needs, from Debian trixie; takes its apt, and Docker
	tools/server-image.sh $(SERVERS)/redis-8.0 $(IMAGE)

$(SERVERS)/%: tools/server-root.sh
	tools/server-root.sh trixie $(firstword $(subst -, ,$*)) $@

.PHONY: cluster-up
cluster-up: ## A cluster in containers to try things on; REDIS_IMAGE=redis:8
	@tools/cluster.sh up

.PHONY: cluster-down
cluster-down: ## Remove it
	@tools/cluster.sh down

.PHONY: deps
deps: ## See to a redis-server for the tests: install it where that can be done
	@tools/need-redis.sh
