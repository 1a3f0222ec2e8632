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
NFPM_VERSION := v2.43.4
NFPM         := $(TOOLS)/nfpm-$(NFPM_VERSION)

MINICLUSTER := contrib/minicluster/minicluster

# What is built. The daemons have paths below PREFIX linked in, so each PREFIX but the default one has a folder of its own:
# test clusters, which have /usr, do not replace the programs in bin/. One make at a time builds into a folder, or runs its
# programs: it holds B/lock (LOCK).
B       := $(if $(filter /usr/local,$(PREFIX)),bin,bin/prefix$(PREFIX))
LOCK    = mkdir -p $(B) && flock $(B)/lock

# What a node needs. The plugin fits one release of Slurm, that of SPANK_INCLUDE.
SPANK_INCLUDE ?= /usr/include
VERSION       ?= $(or $(shell sed -n 's/^\#\# \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1),0.1.0-dev)
LIBEXEC        = $(PREFIX)/libexec/singularity-slurm
LIB            = $(PREFIX)/lib/singularity-slurm
UNITS          = $(PREFIX)/lib/systemd/system
DOC            = $(PREFIX)/share/doc/singularity-slurm
LDFLAGS        = -X main.version=$(VERSION)
MODULE        := github.com/singularity-slurm/singularity-slurm
NODE_FILES  := $(shell find proxyd preemptd policies slurmrestd-client libsingshim -name '*.go' ! -name '*_test.go' -o -path '*/web/page/*')
C_PARTS     := slurm-spank/warden slurm-spank/srun slurm-spank/pmix libsingshim
RELEASES    := forky trixie bookworm
CACHE        = $(or $(MINICLUSTER_CACHE),/var/cache/minicluster)
GO_FILES    := $(shell find . -name '*.go' -o -path '*/templates/*' -o -path '*/recipe/*')

CORPUS      := -up=--singularity -option=--singularity
DEVICES     := -programs devices -up="--singularity --gpus 2" -first=--singularity -option=--singularity
# One of each kind: shells, coroutines, databases, MPI, a training, steps.
SOME_PROGRAMS := bash-jobs|python-asyncio|postgres-pgbench|mpich-heat|torch-ddp|srun-sequence
# What test-full has beside them: threads, compilers, JITs.
MORE_PROGRAMS := python-threads|gcc-make|java-threads

.PHONY: all help check ci test-pkg test-full build node controller cuda gpu-kit gpu-kit-locked install-cuda install-cuda-locked test test-unit test-c test-cluster test-long bench lint fmt generate clean demo deps trees plugins
.PHONY: test-control test-corpus test-devices test-faults test-harm test-packages test-releases test-suites criu packages paper-tables test-nested slicing bench-parts install install-locked install-node install-node-locked install-controller install-controller-locked install-minicluster uninstall uninstall-minicluster FORCE

all: build

build: $(MINICLUSTER) ## minicluster, and into bin/ what nodes and the controller run (1 min)
	@$(LOCK) $(MAKE) --no-print-directory node controller

$(MINICLUSTER): $(GO_FILES) go.mod go.sum
	CGO_ENABLED=0 $(GO) build -o $@ ./contrib/minicluster

# What the rest needs of this machine, installed if missing.
deps: ## installs what the rest needs of this machine, if missing (needs root)
	@contrib/deps

# A training that is moved, shrunk and grown by preemptd; what its nodes run is built while the cluster is raised.
demo: deps $(MINICLUSTER) ## PyTorch moved, shrunk and grown on a full cluster, and drawn in demo.png (2 to 3 min)
	@contrib/demo/run

# What the targets are, and how long they take: the text behind ##.
help: ## this list
	@echo "Targets. Times are for 2 cores that do nothing else, with warm caches; the first time on a machine takes longer."
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F '\t' '{ printf "  make %-20s %s\n", $$1, $$2 }'

# `make test` and `make test-full` are lists of parts, of which each has what the other has not, but for the unit tests:
# test has them in short, test-full whole. `make ci` has both lists, and the unit tests once. The lists are in lanes that
# run side by side, for tests on clusters mostly wait: HERE is what needs no cluster, and what tests few things on one.
# In `make ci` HERE is in the lane that ends first, behind the programs, beside the unit tests.
# SELF is this make; written as $(MAKE), `make -n test` would run the tests.
SELF  = $(MAKE) --no-print-directory
TALLY := $(GO) run ./tests/tally
GO_CLUSTER := $(GO) test -json -count=1 -tags

# The whole unit tests run with the race detector, but for tests/pytorch and tests/llama, whose programs are not Go. Packages
# with tests that do less with the race detector, because of its time or memory, are in NO_RACE.
# LONG_UNIT, which take the longest, are first, so that none of them is left to run alone.
NO_RACE   := ./proxyd/store ./slurmrestd-client ./tests/pytorch ./tests/llama
LONG_UNIT := ./proxyd/softgpu ./tests/workloads ./tests/device

# Packages whose unit tests take minutes whatever was changed: the software GPU's own, and programs under many libraries, and on
# software GPUs, PyTorch and llama.cpp too.
# Of the others, WAITING_UNIT, which wait the longest, are first.
SLOW_UNIT  := proxyd/softgpu tests/device tests/gpu tests/workloads tests/pytorch tests/llama libsingshim/shimtest
WAITING_UNIT := ./proxyd/overlay ./proxyd/capsule ./preemptd ./preemptd/web
QUICK_UNIT  = $(WAITING_UNIT) $$($(GO) list ./... | grep -v $(SLOW_UNIT:%=-e /%$$))

# The part of tests/cluster, and of the jobs on software GPUs, that `make test` has: protection, actions, and what people
# get wrong; a training on one node, one on two, and a server; PyTorch on two nodes. By seed 7 the jobs with GPUs of test and
# test-full together meet each kind of kill, also fewer nodes, one GPU in the place of four and back, and more and fewer GPUs
# by lease.
SOME_CLUSTER := TestBadInput|TestActions|TestProtected|TestRESTClient
# In a lane of its own: what attackers do, and what must not be lost silently.
ATTACKS := TestReplacedFiles|TestFloods|TestReusedPID|TestMountFlags|TestCRIUInHost|TestSharedFolder|TestLostWork|TestChangedFiles|TestObstacleLater
SOME_DEVICES := TestCorpus/(mlp-alone|gpt-nodes|serve-requests)
TORCH_DEVICES := TestCorpus/torch-(nodes|four)
# Only make test-devices has it: a run takes minutes.
LONG_DEVICES := TestCorpus/torch-sharded
# What only test-full has of tests/control: four nodes onto one, leases while preemptd is away, and five of the scenarios.
# In make test TestLeasesOfNodes comes onto fewer nodes.
FULL_CONTROL := ^(TestFewerNodes|TestLeasesWithoutController)$$|^TestControl$$/^(rolling_drain|defrag_makes_room|power_cap|room_is_given_up|a_job_that_is_lent_GPUs_is_cancelled)$$
# Only make test-long has these: the store on NFS and an NFS server that is cut off, in an emulated machine; 64 nodes and
# 100 jobs at once. make test-packages has TestUnderSystemd, and only make test-long runs that.
LONG_CLUSTER := TestStoreOnNFS|TestDeadNFS|TestScale

LINT_PART     = 'lint: $(SELF) lint'
UNIT_IN_SHORT = 'unit, in short: $(GO) test -json -trimpath -short -timeout 40m ./...'
UNIT_WHOLE    = \
	'unit, with the race detector: $(GO) test -json -race -timeout 50m $(LONG_UNIT) $$($(GO) list ./... | grep -v -e /tests/pytorch$$ -e /tests/llama$$)' \
	'unit, without the race detector: $(GO) test -json -timeout 40m $(NO_RACE)'
TEST_HERE = \
	'plugin, on stubs of Slurm: $(SELF) test-c'
TEST_CLUSTER = \
	'cluster, some: $(GO_CLUSTER) cluster -timeout 40m -parallel 3 ./tests/cluster -run "^($(SOME_CLUSTER))$$"' \
	'control, some: $(GO_CLUSTER) control -timeout 60m -parallel 4 ./tests/control -skip "$(FULL_CONTROL)"' \
	'faults, some: $(GO_CLUSTER) faults -timeout 30m ./tests/faults -seed 49 -some 2 -always ^restore/sruns/kill_slurmctld$$'
TEST_PROGRAMS = \
	'programs, some: $(GO_CLUSTER) corpus -timeout 30m ./tests/corpus $(CORPUS) -rounds 1 -seed 1 -run "TestCorpus/($(SOME_PROGRAMS))$$"' \
	'devices, some: $(GO_CLUSTER) corpus -timeout 30m ./tests/corpus $(DEVICES) -rounds 3 -seed 7 -lanes 2 -name devices-test -run "$(SOME_DEVICES)$$"' \
	'devices, PyTorch: $(GO_CLUSTER) corpus -timeout 30m ./tests/corpus $(DEVICES) -rounds 1 -seed 7 -lanes 2 -name devices-test -run "$(TORCH_DEVICES)$$"' \
	'attacks and losses: $(GO_CLUSTER) cluster -timeout 45m -parallel 3 ./tests/cluster -run "^($(ATTACKS))$$"'
FULL_HERE = \
	'root file systems: $(SELF) trees' \
	'plugin, for each Slurm: $(SELF) plugins'
FULL_CLUSTER = \
	'cluster, the rest: $(GO_CLUSTER) cluster -timeout 60m -parallel 3 ./tests/cluster -skip "^($(SOME_CLUSTER)|$(ATTACKS)|$(LONG_CLUSTER))$$"' \
	'control, the rest: $(GO_CLUSTER) control -timeout 20m ./tests/control -run "$(FULL_CONTROL)"'
FULL_PROGRAMS = \
	'packages: $(SELF) test-packages GO_TEST="$(GO) test -json -skip ^TestUnderSystemd"' \
	'first installation: $(GO_CLUSTER) install -timeout 20m ./tests/install -trees $(CACHE)' \
	'devices, the rest: $(GO_CLUSTER) corpus -timeout 60m ./tests/corpus $(DEVICES) -rounds 2 -seed 7 -lanes 2 -name devices-test -skip "$(SOME_DEVICES)$$|$(TORCH_DEVICES)$$|$(LONG_DEVICES)$$"' \
	'controller, some kills: $(GO_CLUSTER) harm -timeout 30m ./tests/harm -seed 1 -some 3 -random 15 -jobs 8' \
	'programs, more: $(GO_CLUSTER) corpus -timeout 30m ./tests/corpus $(CORPUS) -rounds 1 -seed 1 -run "TestCorpus/($(MORE_PROGRAMS))$$"' \
	'faults, the rest: $(GO_CLUSTER) faults -timeout 30m ./tests/faults -name faults-rest -seed 49 -some 8 -after 2 -run "^TestFaults$$"' \
	'demo: $(SELF) demo'

test: deps build $(LINT) ## lint, unit tests, C tests, and some of what runs on clusters; ends in the count (20 min)
	@echo "make test takes about 20 minutes on 2 cores that do nothing else. make test-full has the rest, make check the beginning."
	@$(TALLY) $(LINT_PART) $(UNIT_IN_SHORT) $(TEST_HERE) -- $(TEST_CLUSTER) -- $(TEST_PROGRAMS)

test-full: deps build ## what make test leaves out: the race detector, packages, the rest of the clusters, the demo (30 min)
	@echo "make test-full takes about 30 minutes on 2 cores that do nothing else, beside what make test has."
	@$(TALLY) $(FULL_HERE) $(UNIT_WHOLE) -- $(FULL_CLUSTER) -- $(FULL_PROGRAMS)

ci: deps build $(LINT) ## make test and make test-full in one run, each test once (60 min at most)
	@$(TALLY) $(UNIT_WHOLE) -- $(TEST_CLUSTER) $(FULL_CLUSTER) -- $(TEST_PROGRAMS) $(FULL_PROGRAMS) $(LINT_PART) $(TEST_HERE) $(FULL_HERE)

# What to run before each commit. It needs neither root nor a cluster; -short leaves out what takes minutes. Eight packages
# at a time, for many tests wait. The tests' heaps are small: with GOGC=400 they spend a quarter less time in all. With
# -trimpath a clone uses packages that another clone has compiled. The linter has vet, and make test's unit tests as well.
check: $(LINT) ## lint of what changed since main, and the quicker unit tests; no root (2 min at most; seconds where little changed)
	@$(TALLY) \
		'lint of what changed: LINT=$(LINT) contrib/lint-changed' \
		'unit, the quicker ones: GOGC=400 $(GO) test -json -trimpath -vet=off -short -p 8 $(QUICK_UNIT)'

test-pkg: ## the tests of one package: make test-pkg P=./proxyd/store [RUN=TestName] [RACE=-race] (seconds)
	@test -n "$(P)" || { echo "which package? make test-pkg P=./proxyd/store" >&2; exit 1; }
	@{ $(GO) test -count=1 -trimpath $(RACE) $(if $(value RUN),-v -run '$(value RUN)') $(P); echo "test-pkg ends with $$?"; } 2>&1 | awk ' \
		/\[no tests to run\]/ { none = 1 } /^test-pkg ends with / { status = $$4; next } { print; fflush() } \
		END { if (!status && none) { print "no test has the name of RUN" >"/dev/stderr"; status = 1 } exit status }'

# A cluster of each suite, up and down: builds the root file systems that are
# missing, and shows how far it is.
trees: build
	@for suite in $(RELEASES); do \
		$(MINICLUSTER) up --suite $$suite --name trees-$$suite && $(MINICLUSTER) down --name trees-$$suite || exit 1; \
	done

test-unit: ## all unit tests, with the race detector; no root; fetches PyTorch and a llama.cpp model once (15 min)
	$(GO) test -race ./...

# The plugin under sanitizers, against stubs of Slurm.
test-c: ## the plugin under sanitizers, on stubs of Slurm (20 s)
	@mkdir -p $(B)
	$(MAKE) -C slurm-spank O=$(CURDIR)/$(B) test

# The plugin compiles for every Slurm that it claims to fit. A tree has its headers.
plugins: trees ## the plugin compiled for each Slurm that it fits (1 min)
	@for suite in $(RELEASES); do \
		header=$$(ls -t $(CACHE)/$$suite-[0-9a-f]*/usr/include/slurm/spank.h | head -n 1) && mkdir -p $(B)/$$suite && \
		$(MAKE) --no-print-directory -B -C slurm-spank O=$(CURDIR)/$(B)/$$suite SPANK_INCLUDE=$${header%/slurm/spank.h} || exit 1; \
	done

# The packages in root file systems of test clusters: installed, upgraded, removed.
GO_TEST ?= $(GO) test -v

test-packages: deps trees ## debs and rpms installed, upgraded and removed in root file systems, and under systemd (5 min)
	@tree=$$(ls -td $(CACHE)/forky-[0-9a-f]* | grep -E 'forky-[0-9a-f]+$$' | head -n 1) && \
		$(MAKE) --no-print-directory packages SPANK_INCLUDE=$$tree/usr/include
	$(GO_TEST) -count=1 -tags packages -timeout 30m ./tests/packages -trees $(CACHE) -packages $(PACKAGES)

test-cluster: deps build trees ## all tests on real Slurm (15 min)
	$(GO) test -count=1 -tags cluster -timeout 40m -v ./tests/cluster

# What preemptd does on a cluster, one scenario after the other.
test-control: deps build ## the controller on a cluster, scenario by scenario (4 min)
	$(GO) test -count=1 -tags control -timeout 15m -v ./tests/control

# Programs of Debian, each killed three times at random moments; writes docs/corpus.md.
# About half an hour on a machine that does nothing else.
test-corpus: deps build ## programs of Debian, killed at random moments; writes docs/corpus.md (50 min)
	$(GO) test -count=1 -tags corpus -timeout 2h -v ./tests/corpus $(CORPUS) -table docs/corpus.md $(if $(RUN),-run '$(RUN)')

# Jobs on software GPUs, each killed twenty times at random moments; writes docs/devices.md.
test-devices: deps build ## jobs on software GPUs, killed at random moments; writes docs/devices.md (30 min)
	$(GO) test -count=1 -tags corpus -timeout 4h -v ./tests/corpus $(DEVICES) -rounds 20 -table docs/devices.md $(if $(RUN),-run '$(RUN)')

# A kill, a cut or damage at each phase of a checkpoint and of a restore; writes docs/faults.md.
test-faults: deps build ## a fault at each phase of checkpoints and restores; writes docs/faults.md (60 min)
	$(GO) test -count=1 -tags faults -timeout 2h -v ./tests/faults -table docs/faults.md

# Protected jobs, faults and the controller on each Slurm but the newest. All of it runs, whatever fails.
test-releases: deps build trees ## protected jobs, faults and the controller on Slurm 24.11 and 22.05 (40 min)
	@failed=; for suite in $(filter-out forky,$(RELEASES)); do \
		$(GO) test -count=1 -tags cluster -timeout 20m -v ./tests/cluster -suite $$suite -run '^TestProtected' || failed=1; \
		$(GO) test -count=1 -tags faults -timeout 20m -v ./tests/faults -suite $$suite -name faults-$$suite -seed 1 -some 12 || failed=1; \
		$(GO) test -count=1 -tags control -timeout 20m -v ./tests/control -suite $$suite -name control-$$suite || failed=1; \
	done; test -z "$$failed"

# Programs of other people's suites; writes docs/cuda-suites.md. SUITES=FOLDER has more suites, each with its description
# beside it (tests/suites/doc.go); -rest in TESTS leaves out programs that the page has already.
test-suites: deps build ## other people's CUDA programs on software GPUs [RUN=TestSuites/suite/program]; writes docs/cuda-suites.md (2 h)
	$(GO) test -count=1 -tags suites -timeout 12h -v ./tests/suites $(if $(SUITES),-suites $(abspath $(SUITES))) \
		-table $(CURDIR)/docs/cuda-suites.md $(if $(value RUN),-run '$(value RUN)') $(TESTS)

# Longer than a change can wait for: each fuzz target for a while, every interleaving of
# larger programs at the barrier, the root file systems built cold.
test-long: deps build ## fuzzing, larger programs at the barrier, cold root file systems, every fault, devices, harm (6 h)
	contrib/fuzz 60s
	$(GO) test -count=1 -timeout 60m -v ./proxyd/barrier -long -programs 100
	MINICLUSTER_BUILD_TESTS=1 $(GO) test -v -timeout 40m ./contrib/minicluster/rootfs
	$(GO) test -count=1 -tags cluster -timeout 10m -v -run TestOnRealCluster ./preemptd/singctl
	$(GO) test -count=1 -tags cluster -timeout 75m -v -run '^($(LONG_CLUSTER))$$' ./tests/cluster
	CGO_ENABLED=0 $(GO) test -count=1 -tags live -timeout 15m -v ./slurm-spank/live
	$(MAKE) --no-print-directory test-releases test-packages test-faults
	$(MAKE) --no-print-directory test-devices
	$(MAKE) --no-print-directory test-harm

# Something is killed at each step of each of the controller's actions, a person interferes
# at each step, and a thousand random things happen to twenty jobs, some of them on GPUs.
EVENTS ?= 1000
test-harm: deps build ## something killed at each step of each action; EVENTS=1000 random operations and faults (2 h)
	$(GO) test -count=1 -tags harm -timeout 6h -v ./tests/harm -random $(EVENTS)

# What protection costs a job, on a cluster, against the same without: 10 to 15 minutes
# on a machine that does nothing else. Writes the table in docs/performance.md.
bench: deps build ## what protection costs a job; writes docs/performance.md (15 min)
	$(GO) test -count=1 -tags bench -timeout 60m -v ./tests/bench -run '^TestBench$$' -table docs/performance.md

# What the tables of Singularity's paper have, measured here: 10 to 15 minutes on a machine that does nothing else. Writes the
# tables in docs/paper.md, or with TABLES='table-3|figure-4' some of them.
TABLES ?= .
paper-tables: deps build ## the tables of Singularity's paper, measured here [TABLES=table-3]; writes docs/paper.md (15 min)
	$(GO) test -count=1 -tags bench -timeout 60m -v ./tests/bench -run '^TestPaper$$/^($(TABLES))' -name paper -table docs/paper.md

# What it costs when ranks share a device; writes the table in docs/splicing.md.
ROWS ?= .
slicing: ## what it costs when ranks share a device [ROWS='gpt 2 splice']; writes docs/splicing.md (40 min)
	$(GO) test -count=1 -timeout 90m -v ./tests/workloads -run '^TestSlicing$$' -slicing docs/splicing.md -slicing-rounds 5 -slicing-rows '$(ROWS)'

# The benchmarks of single packages.
bench-parts: ## the benchmarks of single packages (10 min)
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint: $(LINT) ## golangci-lint on everything (1 min; 3 min to build it once)
	$(LINT) run ./...
	$(LINT) run --build-tags cluster,control,corpus,faults,harm,bench,packages,install,suites,guest ./tests/...
	$(LINT) run --build-tags live ./slurm-spank/...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once for this machine (one to three minutes)"
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS)/new $(GO) install -v github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) 2>&1 | \
		awk '/^go: [^d]|error/ { print } NR % 100 == 0 { print "  " NR " modules and packages"; fflush() }'
	@mv $(TOOLS)/new/golangci-lint $@

fmt: $(LINT) ## formats the Go code (10 s)
	$(LINT) fmt ./...

# The contracts of proxyd and of policies, and what is made of the table of calls: kept in the tree.
generate: ## what protoc and our generators make, which is kept in the tree (20 s)
	$(GO) generate ./libsingshim/...
	@command -v protoc >/dev/null || { echo "no protoc, by which the rest is made: install it (Debian: protobuf-compiler)" >&2; exit 1; }
	$(GO) generate ./proxyd/rpc ./proxyd/softgpu/ptx ./policies/sdk/policypb

# The daemon, singctl, and what runs in jobs: everything but the plugin, which needs
# Slurm's headers.
node: $(B)/proxyd $(B)/singctl
	@for part in $(C_PARTS); do $(MAKE) --no-print-directory -s -C $$part O=$(CURDIR)/$(B) || exit 1; done

$(B)/proxyd: $(NODE_FILES) go.mod go.sum $(B)/linked
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS) -X main.libexec=$(LIBEXEC)' -o $@ ./proxyd

# The device server for real GPUs: it opens the driver, so it is linked with the C library. Go's heap stays out of the
# way of devices' memory.
CUDA_FILES := $(shell find proxyd/device/backend/cuda/driver -name '*.[ch]')

cuda: ## the device server for real GPUs, bin/proxyd-cuda (1 min)
	@$(LOCK) $(MAKE) --no-print-directory $(B)/proxyd-cuda

$(B)/proxyd-cuda: $(NODE_FILES) $(CUDA_FILES) go.mod go.sum $(B)/linked
	CGO_ENABLED=1 GOEXPERIMENT=norandomizedheapbase64 $(GO) build -trimpath -tags netgo,osusergo \
		-ldflags '$(LDFLAGS) -X main.libexec=$(LIBEXEC)' -o $@ ./proxyd

# One archive for a node with GPUs that has neither Go nor a compiler nor a network: docs/gpu.md.
gpu-kit: ## bin/gpu-kit.tar.gz: shows what works on a node's GPUs, with a shell and the driver only (2 min)
	@$(LOCK) $(MAKE) --no-print-directory gpu-kit-locked

gpu-kit-locked: node $(B)/proxyd-cuda
	@GO='$(GO)' CC='$(CC)' BUILT=$(B) tests/gpu/pack $(B)/gpu-kit

# The backend of real GPUs without one: its driver is our own shim, over two software GPUs in another device server.
test-nested: gpu-kit ## all of the GPU kit with software GPUs in the driver's place (40 min); results in gpu-kit-out
	tests/gpu/run --kit --nested --steps 6

install-cuda: ## proxyd-cuda, beside what install-node installs
	@$(LOCK) $(MAKE) --no-print-directory install-cuda-locked

install-cuda-locked: $(B)/proxyd-cuda
	install -CD -m 755 $(B)/proxyd-cuda $(DESTDIR)$(LIBEXEC)/proxyd-cuda

$(B)/singctl: $(NODE_FILES) go.mod go.sum $(B)/linked
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./preemptd/singctl

# The controller. Its journal is SQLite, which is C: linked statically, it runs on every
# suite's libc.
$(B)/preemptd: $(NODE_FILES) go.mod go.sum $(B)/linked
	CGO_ENABLED=1 $(GO) build -trimpath -tags netgo,osusergo,sqlite_omit_load_extension \
		-ldflags '$(LDFLAGS) -X $(MODULE)/preemptd/config.libexec=$(LIBEXEC) -linkmode=external -extldflags=-static' -o $@ ./preemptd

# Its policies are processes of their own, of one program: a link to it is the policy that the link names.
POLICIES := $(patsubst policies/%/,%,$(filter-out policies/sdk/,$(wildcard policies/*/)))

controller: $(B)/preemptd $(POLICIES:%=$(B)/sing-policy-%) ## preemptd and its policies, into bin (10 s)

$(B)/sing-policies: $(NODE_FILES) go.mod go.sum $(B)/linked
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./policies

$(POLICIES:%=$(B)/sing-policy-%): $(B)/sing-policies
	ln -sf sing-policies $@

# What is linked in. It changes with VERSION, and with PREFIX where B is given.
$(B)/linked: FORCE
	@mkdir -p $(B)
	@echo '$(VERSION) $(LIBEXEC)' | cmp -s - $@ || echo '$(VERSION) $(LIBEXEC)' >$@

install-node: ## what a node needs, into $(DESTDIR)$(PREFIX) (1 min)
install-controller: ## preemptd and its policies, likewise (1 min)
install-node install-controller:
	@$(LOCK) $(MAKE) --no-print-directory $@-locked

# The plugin is always built anew: it is quick, and SPANK_INCLUDE may be another. What is
# the same is not replaced (-C): running jobs have these files mapped.
install-node-locked: node
	$(MAKE) --no-print-directory -B -C slurm-spank O=$(CURDIR)/$(B) \
		SPANK_INCLUDE=$(SPANK_INCLUDE) WARDEN=$(LIBEXEC)/sing-warden VERSION=$(VERSION)
	install -CD -m 755 $(B)/proxyd $(DESTDIR)$(PREFIX)/sbin/proxyd
	install -CD -m 755 $(B)/singctl $(DESTDIR)$(PREFIX)/bin/singctl
	install -CD -m 755 $(B)/sing-warden $(DESTDIR)$(LIBEXEC)/sing-warden
	install -CD -m 755 $(B)/sing-srun $(DESTDIR)$(LIBEXEC)/sing-srun
	install -CD -m 755 $(B)/sing-pmix $(DESTDIR)$(LIBEXEC)/sing-pmix
	install -CD -m 644 $(B)/libsingshim.so $(DESTDIR)$(LIB)/libsingshim.so
	install -CD -m 644 $(B)/libsingshim-device.so $(DESTDIR)$(LIB)/libsingshim-device.so
	install -CD -m 644 $(B)/libsingshim-criu.so $(DESTDIR)$(LIB)/libsingshim-criu.so
	install -CD -m 644 $(B)/spank_singularity.so $(DESTDIR)$(LIB)/spank_singularity.so

install-controller-locked: controller
	install -CD -m 755 $(B)/preemptd $(DESTDIR)$(PREFIX)/sbin/preemptd
	install -CD -m 755 $(B)/sing-policies $(DESTDIR)$(LIBEXEC)/sing-policies
	for name in $(POLICIES); do ln -sf sing-policies $(DESTDIR)$(LIBEXEC)/sing-policy-$$name || exit 1; done

# And what an administrator wants beside it. No configuration is touched: the examples
# are to be copied. SHARED is what install makes there, and uninstall removes.
SHARE  = $(DESTDIR)$(PREFIX)/share
SHARED = $(SHARE)/bash-completion/completions/singctl $(SHARE)/zsh/site-functions/_singctl \
	$(SHARE)/fish/vendor_completions.d/singctl.fish
UNIT_FILES = proxyd.service proxyd-gc.service proxyd-gc.timer proxyd-relay.service preemptd.service

install: ## into $(DESTDIR)$(PREFIX), for the Slurm of SPANK_INCLUDE (1 min)
	@$(LOCK) $(MAKE) --no-print-directory install-locked

install-locked: install-node-locked install-controller-locked
	install -d $(dir $(SHARED)) $(DESTDIR)$(UNITS) $(DESTDIR)$(DOC)
	umask 022 && $(B)/singctl man $(SHARE)/man/man1
	install -d $(SHARE)/man/man8
	umask 022 && $(B)/proxyd man >$(SHARE)/man/man8/proxyd.8 && $(B)/preemptd man >$(SHARE)/man/man8/preemptd.8
	umask 022 && $(B)/singctl completion bash >$(SHARE)/bash-completion/completions/singctl
	umask 022 && $(B)/singctl completion zsh >$(SHARE)/zsh/site-functions/_singctl
	umask 022 && $(B)/singctl completion fish >$(SHARE)/fish/vendor_completions.d/singctl.fish
	umask 022 && for unit in $(UNIT_FILES); do sed 's,@PREFIX@,$(PREFIX),g' contrib/systemd/$$unit >$(DESTDIR)$(UNITS)/$$unit || exit 1; done
	umask 022 && sed 's,@LIB@,$(LIB),g' contrib/systemd/plugstack.conf >$(DESTDIR)$(DOC)/plugstack.conf
	umask 022 && $(B)/proxyd config --config /nonexistent >$(DESTDIR)$(DOC)/proxyd.yaml
	umask 022 && $(B)/preemptd config --config /nonexistent >$(DESTDIR)$(DOC)/preemptd.yaml
	install -d $(DESTDIR)$(DOC)/decisions
	install -m 644 LICENSE CHANGELOG.md docs/*.md $(DESTDIR)$(DOC)
	install -m 644 docs/decisions/*.md $(DESTDIR)$(DOC)/decisions
	install -m 644 policies/sdk/README.md $(DESTDIR)$(DOC)/policy-sdk.md
	install -d $(DESTDIR)$(DOC)/proto
	install -m 644 proxyd/rpc/proxyd.proto proxyd/rpc/relay.proto preemptd/rpc/preemptd.proto policies/sdk/policypb/policy.proto $(DESTDIR)$(DOC)/proto

# deb and rpm packages in $(PACKAGES), for the Slurm of SPANK_INCLUDE.
PACKAGES ?= $(CURDIR)/$(B)/packages

# For the Debian releases whose own CRIU does not work; docs/install.md says where else the rpm runs.
SUITE ?= bookworm

criu: $(NFPM) ## a CRIU that works for SUITE=bookworm or trixie: a deb and an rpm into bin/criu (needs root; 2 min)
	NFPM=$(NFPM) contrib/criu/build $(SUITE) $(B)/criu

packages: $(NFPM) ## debs and rpms into bin/packages (1 min)
	@rm -rf $(PACKAGES)
	@mkdir -p $(PACKAGES)
	@echo 'packages: programs are compiled; what is compiled already takes a second' >&2
	@$(MAKE) --no-print-directory -s install DESTDIR=$(PACKAGES)/root PREFIX=/usr
	@NFPM=$(NFPM) VERSION=$(VERSION) SPANK_INCLUDE=$(SPANK_INCLUDE) contrib/packages/build $(PACKAGES)

$(NFPM):
	@mkdir -p $(TOOLS)
	@echo 'nfpm, which makes the packages, is fetched and compiled, once: a minute' >&2
	@GOBIN=$(TOOLS)/new-nfpm $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv $(TOOLS)/new-nfpm/nfpm $@

# An administrator may have files in these folders: policies, above all.
uninstall: ## removes what install installed
	rm -f $(DESTDIR)$(PREFIX)/sbin/proxyd $(DESTDIR)$(PREFIX)/sbin/preemptd $(DESTDIR)$(PREFIX)/bin/singctl $(SHARED)
	rm -f $(SHARE)/man/man1/singctl.1 $(SHARE)/man/man1/singctl-*.1 $(SHARE)/man/man8/proxyd.8 $(SHARE)/man/man8/preemptd.8 $(addprefix $(DESTDIR)$(UNITS)/,$(UNIT_FILES))
	rm -f $(addprefix $(DESTDIR)$(LIBEXEC)/,sing-warden sing-srun sing-pmix sing-policies)
	for link in $(DESTDIR)$(LIBEXEC)/sing-policy-*; do [ "$$(readlink "$$link")" != sing-policies ] || rm -f "$$link"; done
	rm -f $(addprefix $(DESTDIR)$(LIB)/,libsingshim.so libsingshim-device.so libsingshim-criu.so spank_singularity.so)
	rm -f $(addprefix $(DESTDIR)$(DOC)/,plugstack.conf proxyd.yaml preemptd.yaml LICENSE CHANGELOG.md policy-sdk.md)
	rm -f $(addprefix $(DESTDIR)$(DOC)/,$(notdir $(wildcard docs/*.md)) $(addprefix decisions/,$(notdir $(wildcard docs/decisions/*.md))))
	rm -f $(addprefix $(DESTDIR)$(DOC)/proto/,proxyd.proto relay.proto preemptd.proto policy.proto)
	for folder in $(addprefix $(DESTDIR),$(DOC)/decisions $(DOC)/proto $(DOC) $(LIBEXEC) $(LIB)); do \
		[ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder || exit 1; done

install-minicluster: $(MINICLUSTER) ## only minicluster, into $(DESTDIR)$(PREFIX)/bin
	install -D -m 755 $(MINICLUSTER) $(DESTDIR)$(PREFIX)/bin/minicluster

uninstall-minicluster:
	rm -f $(DESTDIR)$(PREFIX)/bin/minicluster

clean: ## removes what was built
	rm -rf bin $(B) $(MINICLUSTER)
	@for part in slurm-spank $(C_PARTS); do $(MAKE) --no-print-directory -s -C $$part clean || exit 1; done
