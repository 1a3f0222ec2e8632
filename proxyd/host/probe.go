// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// LearntFacts has facts that the daemon has learnt and that a look at the node cannot tell. The zero
// value has no facts.
type LearntFacts struct {
	// Capture is the longest time that a job of this node took from Slurm's signal until
	// its memory was captured.
	Capture time.Duration
	// Measure has the rate measured at which this node writes to the folder of checkpoints, while Capture is 0. That
	// takes a file of 64 MiB.
	Measure bool
	// Libexec is the folder of sing-warden, sing-srun and sing-pmix; "": not checked.
	Libexec string
	// Program is proxyd, which lists the node's GPUs; "": not asked.
	Program string
	// Interpreted says why software GPUs only interpret kernels on this node; nil if they compile them.
	Interpreted error
	// KeyInUse is the fingerprint of the key that the daemon has read; "": not known.
	KeyInUse string
	// ReadKey reads the file of the key as the next start of the daemon would, and returns the fingerprint; nil: not
	// compared.
	ReadKey func() (fingerprint string, err error)
	// LoadConfig reads the configuration as the next start of the daemon would; nil: not compared.
	LoadConfig func() (*config.Config, error)
	// SharedID is the ID in the shared folder's mark; "": not known.
	SharedID string
	// SharedCluster is the name of the cluster in the shared folder's mark; "": not known.
	SharedCluster string
	// CheckShared tells whether the shared folder is the one that the daemon has begun with; nil: not asked.
	CheckShared func() error
	// CheckDivert tells whether this node can divert connections of jobs to a forwarder; nil: not asked.
	CheckDivert func() error
	// AskRelay tells whether the site's relay takes connections of this node; nil: not asked.
	AskRelay func(context.Context) error
}

// node is the input of the checks.
type node struct {
	cfg   *config.Config
	known LearntFacts
	coder munge.Coder
	slurm func() (*Slurm, error)
	// patience is the time that a check waits for the file system of a folder.
	patience time.Duration
}

// checks lists doctor's checks in the order of its output: basic features first.
var checks = []func(context.Context, *node) Finding{
	checkRoot,
	checkKernel,
	checkFreezer,
	checkNetwork,
	checkRelay,
	checkFanotify,
	checkDeadlines,
	checkLandlock,
	checkSysV,
	checkCriuFinding,
	checkMunge,
	checkSlurmctld,
	checkNode,
	checkPlugstack,
	checkProctrack,
	checkRequeue,
	checkKillWait,
	checkSpool,
	checkPrograms,
	checkDevices,
	checkKey,
	checkConfiguration,
	checkShared,
	checkStore,
	checkStaging,
	checkClock,
}

// Probe looks at this node, as root. Probe takes seconds at most: programs that do not answer are
// killed, and file systems that do not answer are not waited for. The order of the findings is always the same.
func Probe(ctx context.Context, cfg *config.Config, known LearntFacts) []Finding {
	n := &node{cfg: cfg, known: known, coder: munge.Programs{Socket: cfg.MungeSocket}, patience: folderPatience}
	// Several checks need the configuration; slurmctld is asked once.
	n.slurm = sync.OnceValues(func() (*Slurm, error) { return ReadSlurm(ctx, cfg.Scontrol, cfg.NodeName) })
	return n.runChecks(ctx)
}

// runChecks returns the findings of all checks, which run at the same time.
func (n *node) runChecks(ctx context.Context) []Finding {
	findings := make([]Finding, len(checks))
	var wg sync.WaitGroup
	for i, check := range checks {
		wg.Go(func() { findings[i] = check(ctx, n) })
	}
	wg.Wait()
	return findings
}

// withOK and withProblem complete a finding.
func (f Finding) withOK(found string) Finding {
	f.Level, f.Found = OK, found
	return f
}

func (f Finding) withProblem(l Level, found, do string) Finding {
	f.Level, f.Found, f.Do = l, found, do
	return f
}
