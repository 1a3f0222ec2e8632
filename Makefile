# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=

# Tools that are built from source are kept outside the tree: a clean clone finds
# them again.
TOOLS        ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/singularity-slurm/tools
LINT_VERSION := v2.15.0
LINT         := $(TOOLS)/golangci-lint-$(LINT_VERSION)

MINICLUSTER := contrib/minicluster/minicluster
GO_FILES    := $(shell find . -name '*.go' -o -path '*/templates/*' -o -path '*/recipe/*')

.PHONY: all build test test-unit test-cluster test-long bench lint fmt record install uninstall clean demo deps trees

all: build

build: $(MINICLUSTER)

$(MINICLUSTER): $(GO_FILES) go.mod go.sum
	CGO_ENABLED=0 $(GO) build -o $@ ./contrib/minicluster

# What the rest needs of this machine, installed if missing.
deps:
	@contrib/deps

demo: deps build
	@contrib/demo

test: deps build $(LINT)
	@$(GO) run ./tests/tally \
		'lint: $(MAKE) --no-print-directory lint' \
		'unit: $(GO) test -json -race ./...' \
		'root file systems: $(MAKE) --no-print-directory trees' \
		'cluster: $(GO) test -json -tags cluster -timeout 25m ./tests/cluster'

# A cluster of each suite, up and down: builds the root file systems that are
# missing, and shows how far it is.
trees: build
	@for suite in forky trixie bookworm; do \
		$(MINICLUSTER) up --suite $$suite --name trees-$$suite && $(MINICLUSTER) down --name trees-$$suite || exit 1; \
	done

test-unit:
	$(GO) test -race ./...

test-cluster: deps build trees
	$(GO) test -tags cluster -timeout 25m -v ./tests/cluster

# Longer than a change can wait for: each fuzz target for a while, the root file
# systems built cold.
test-long: deps build
	contrib/fuzz 60s
	MINICLUSTER_BUILD_TESTS=1 $(GO) test -v -timeout 40m ./contrib/minicluster/rootfs

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint: $(LINT)
	$(LINT) run ./...
	$(LINT) run --build-tags cluster ./tests/cluster/...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once for this machine (one to three minutes)"
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS)/new $(GO) install -v github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) 2>&1 | \
		awk '/^go: [^d]|error/ { print } NR % 100 == 0 { print "  " NR " modules and packages"; fflush() }'
	@mv $(TOOLS)/new/golangci-lint $@

fmt: $(LINT)
	$(LINT) fmt ./...

install: build
	install -D -m 755 $(MINICLUSTER) $(DESTDIR)$(PREFIX)/bin/minicluster

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/minicluster

clean:
	rm -f $(MINICLUSTER)
