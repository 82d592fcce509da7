SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

MODULE := github.com/ovn-vpc/ovn-vpc
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Where `make setup-compat` unpacks other versions of Debian.
OVN_VPC_CACHE ?= $(HOME)/.cache/ovn-vpc
export OVN_VPC_CACHE

# Tests with hypervisors in network namespaces: for root alone.
WIRE := ^$(MODULE)/(lab|test/(wire|scene|agent|faults/nb).*)$$
# Other OVN versions, by Debian's names: 25.03 and 26.03.
SUITES := trixie sid
# The tests whose OVN comes from lab/labtest run on every version.
COMPAT = $$(go list -test -f '{{.ImportPath}} {{join .Deps " "}} ' ./... | \
	awk '$$1 ~ /\.test$$/ && index($$0, " $(MODULE)/lab/labtest ") {sub(/\.test$$/, "", $$1); print $$1}')

# gotest runs the tests of the packages $(1) and sums them up in the last line.
gotest = go test -json -count=1 -timeout 15m $(1) | bin/testsum

.PHONY: help
help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install the Debian packages that are missing (uses sudo when not root)
	@hack/setup.sh

.PHONY: setup-compat
setup-compat: ## setup, and unpack OVN 25.03 and 26.03 into OVN_VPC_CACHE (root)
	@hack/setup.sh compat

.PHONY: build
build: ## build bin/ovn-vpc
	go build -o bin/ovn-vpc ./cmd/ovn-vpc

.PHONY: bin/testsum
bin/testsum:
	@go build -o $@ ./hack/testsum

.PHONY: demo
demo: setup build ## three tiers on hypervisors in namespaces: who reaches whom, a list replaced, a migration, the underlay
	@go run ./hack/demo

.PHONY: lab-up
lab-up: ## start the lab of docker-compose.yml: central OVN, three hypervisors, ovn-vpc, guests
	@hack/setup.sh engine
	@hack/lab.sh up

.PHONY: lab-demo
lab-demo: ## play the scenes of `make demo` there
	@hack/lab.sh demo

.PHONY: lab-test
lab-test: bin/testsum ## restart and kill a hypervisor, then play them and check what they come to
	@hack/lab.sh test

.PHONY: lab-down
lab-down: ## stop the lab; its databases stay in volumes
	@hack/lab.sh down

.PHONY: lab-purge
lab-purge: ## stop the lab and forget it: volumes, image, and the engine of its own if it has one
	@hack/lab.sh purge

.PHONY: test
test: setup bin/testsum ## set up and run all tests on this machine's OVN (root)
	@[ "$$(id -u)" = 0 ] || echo "make test: not root: the tests with hypervisors need it and will fail. Run it as root, or make test-unit." >&2
	@$(call gotest,./...)

.PHONY: test-unit
test-unit: bin/testsum ## all tests that need no root: without hypervisors
	@$(call gotest,$$(go list ./... | grep -Ev '$(WIRE)'))

.PHONY: test-compat
test-compat: setup-compat bin/testsum ## database, pipeline and wire tests on OVN 25.03 and 26.03 (root)
	@failed=; for suite in $(SUITES); do \
		echo "== OVN of Debian $$suite"; \
		OVN_VPC_TEST_ROOT="$$OVN_VPC_CACHE/$$suite" $(call gotest,$(COMPAT)) || failed="$$failed $$suite"; \
	done; [ -z "$$failed" ] || { echo "make test-compat: failed on$$failed" >&2; exit 1; }

.PHONY: test-faults
test-faults: setup bin/testsum ## the tests that kill writers and databases alone, COUNT of each fault, and what the audit of all committed states says
	@$(call gotest,./test/audit/... ./test/faults/... -timeout 2h $(if $(COUNT),-cases $(COUNT)))

# go test -fuzz takes one target at a time.
FUZZ := model:FuzzLoad translate/match:FuzzParse nbdb:FuzzParseDump trace:FuzzReadSummary engine:FuzzExplain server:FuzzCall
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## feed the readers made-up input, FUZZTIME=30s each
	@failed=; for target in $(FUZZ); do \
		echo "== $$target"; \
		go test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZTIME) "./$${target%:*}" || failed="$$failed $$target"; \
	done; [ -z "$$failed" ] || { echo "make fuzz: failed:$$failed" >&2; exit 1; }

.PHONY: test-race
test-race: setup bin/testsum ## all tests and the programs that they build with the race detector, random ones with fewer cases (root)
	@GOFLAGS=-race go test -short -json -count=1 -timeout 60m ./... -cases 20 | bin/testsum

DURATION ?= 20m

.PHONY: soak
soak: setup ## churn on a server for DURATION=20m, and see whether what it uses stays level
	go test -v -count=1 -timeout 0 ./test/soak -run TestSoak -duration $(DURATION)

.PHONY: lint
lint: ## gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w these:"$$'\n'"$$unformatted" >&2; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

# Rounds of each case, and the cases, with commas between: all if empty.
BENCH_RUNS ?= 5
CASE ?=
.PHONY: bench
bench: setup build ## measure against what the database can do: a table with ratios and targets
	@go build -o bin/bench ./hack/bench
	@bin/bench -runs $(BENCH_RUNS) -case '$(CASE)' $(BENCH_FLAGS)

.PHONY: churn
churn: setup build ## interfaces come and go on hypervisors in namespaces: how long until addressed, bound, reached (root)
	@go build -o bin/bench ./hack/bench
	@bin/bench -churn $(BENCH_FLAGS)

.PHONY: microbench
microbench: ## run Go's benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: clean
clean: ## remove what was built (not OVN_VPC_CACHE)
	rm -rf bin
