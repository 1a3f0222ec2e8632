// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/doctor"
	"github.com/singularity-slurm/singularity-slurm/preemptd/health"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// examineController makes the Controller for singctl doctor --controller, singctl status and readyz.
func (c *controller) examineController() *doctor.Controller {
	cfg := c.cfg.Load()
	proxyds := c.newProxyds(cfg)
	return &doctor.Controller{
		Slurmrestd: cfg.Slurmrestd,
		Token: func() (user, token string, err error) {
			if cfg.TokenFile == "" {
				return "", "", nil
			}
			return slurmrest.TokenFile(cfg.TokenFile, cfg.TokenUser)(context.Background())
		},
		Ping: func(ctx context.Context) error { return pingSlurm(ctx, c.slurm) },
		Run: func(ctx context.Context, program string, args ...string) (string, error) {
			out, err := slurmrest.ExecScontrol{Path: program}.Run(ctx, args...)
			return string(out), err
		},
		Scontrol: cfg.Scontrol, Sacctmgr: cfg.Sacctmgr, LeaseQOS: cfg.LeaseQOS,
		Journal: func(ctx context.Context) error {
			_, err := c.journal.Mandate(ctx)
			return err
		},
		Policies: func() []*rpc.Policy { return c.policies.collectStatus(c.cfg.Load().Policies) },
		Nodes:    c.namesOfNodesUp,
		Knock: func(ctx context.Context, node string) (string, error) {
			reply, err := proxyds.Knock(ctx, node)
			return health.FolderProblem(reply.GetHealth()), err
		},
	}
}

// namesOfNodesUp lists the nodes that answer slurmctld.
func (c *controller) namesOfNodesUp(ctx context.Context) ([]string, error) {
	nodes, err := c.slurm.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range nodes {
		if n := &nodes[i]; n.State.Base != "DOWN" && !n.State.Has("NOT_RESPONDING") {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

// errFound says that doctor has found a fault that keeps preemptd from its work.
var errFound = errors.New("it cannot do its work: see the lines with FAIL")

// doctorTimeout bounds the time that doctor waits for Slurm and for proxyds.
const doctorTimeout = 30 * time.Second

// doctorCommand is preemptd doctor.
func doctorCommand(load func() (*config.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what keeps preemptd from its work, also before it works", Args: noArguments,
		Long: `doctor looks at the configuration, Slurm and the nodes as the preemptd of this machine would find them,
whether that works, waits, or was never started. It changes nothing. singctl doctor --controller asks
the preemptd that works.

The exit code is 1 if something has to be done first.`,
		Example: "  preemptd doctor\n  preemptd doctor --config new.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), doctorTimeout)
			defer cancel()
			return printFindings(c.OutOrStdout(), examineWithoutDaemon(ctx, load))
		},
	}
}

func configurationFinding() *rpc.Finding {
	return &rpc.Finding{Name: "configuration", Needs: "keys that preemptd knows, with values that it accepts"}
}

// checkConfiguration compares the configuration that this preemptd works with and that of the file.
func (c *controller) checkConfiguration() *rpc.Finding {
	f := configurationFinding()
	set := func(level rpc.Finding_Level, found, do string) *rpc.Finding {
		f.Level, f.Found, f.Do = level, found, do
		return f
	}
	inFile, err := c.load()
	if err != nil {
		return set(rpc.Finding_FAIL, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "configuration: "), "\n", "; ")+"; preemptd works with what it has read before, and will not start again",
			"mend the file until `preemptd config check` is content, then systemctl reload preemptd")
	}
	atStart := c.started.NeedsRestart(inFile)
	changed := slices.DeleteFunc(c.cfg.Load().ChangedKeys(inFile), func(key string) bool { return slices.Contains(atStart, key) })
	const older = "preemptd works with an older configuration than the file has: "
	switch {
	case len(atStart) > 0:
		return set(rpc.Finding_WARN, older+strings.Join(append(atStart, changed...), ", "), "systemctl restart preemptd: actions under way go on after that")
	case len(changed) > 0:
		return set(rpc.Finding_WARN, older+strings.Join(changed, ", "), "systemctl reload preemptd")
	}
	return set(rpc.Finding_OK, "as in the file", "")
}

// examineWithoutDaemon examines a controller that need not run.
func examineWithoutDaemon(ctx context.Context, load func() (*config.Config, error)) []*rpc.Finding {
	f := configurationFinding()
	cfg, err := load()
	c := &controller{}
	if err == nil {
		c.slurm, err = slurmrest.New(slurmClientConfig(cfg))
	}
	if err != nil {
		f.Level, f.Found, f.Do = rpc.Finding_FAIL, err.Error(), "preemptd config check; preemptd config lists the keys"
		return []*rpc.Finding{f}
	}
	defer c.slurm.Close()
	c.cfg.Store(cfg)
	f.Level, f.Found = rpc.Finding_OK, "can be read"
	d := c.examineController()
	d.Journal = func(context.Context) error { return checkJournalFolder(cfg.Journal) }
	d.Policies = func() []*rpc.Policy { return configuredPolicies(cfg) }
	return append([]*rpc.Finding{f}, d.Examine(ctx)...)
}

// checkJournalFolder returns an error if the journal can neither be written nor made. It does not open the journal,
// which another preemptd may have.
func checkJournalFolder(journal string) error {
	at := journal
	if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
		at = filepath.Dir(at)
	}
	if err := unix.Access(at, unix.W_OK); err != nil {
		return &os.PathError{Op: "write", Path: at, Err: err}
	}
	return nil
}

// configuredPolicies returns the policies that would run, each with what would keep it from running.
func configuredPolicies(cfg *config.Config) []*rpc.Policy {
	var all []*rpc.Policy
	for _, name := range cfg.Policies {
		p := &rpc.Policy{Name: name}
		if _, err := policySite(cfg).Configs([]string{name}); err != nil {
			p.Problem = err.Error()
		}
		all = append(all, p)
	}
	return all
}

// printFindings prints findings, and returns errFound if one of them is a failure.
func printFindings(w io.Writer, all []*rpc.Finding) (err error) {
	for _, f := range all {
		level := "ok"
		if f.GetLevel() != rpc.Finding_OK {
			level = f.GetLevel().String()
		}
		fmt.Fprintf(w, "%-4s  %-18s  %s\n", level, f.GetName(), f.GetFound())
		if f.GetLevel() != rpc.Finding_OK {
			fmt.Fprintf(w, "%26sneeds: %s\n%26sdo:    %s\n", "", f.GetNeeds(), "", f.GetDo())
		}
		if f.GetLevel() == rpc.Finding_FAIL {
			err = errFound
		}
	}
	return err
}
