// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// withoutSlurm is the finding of checks that need Slurm's configuration, if reading it failed with err.
func (f Finding) withoutSlurm(err error) Finding {
	if errors.Is(err, ErrNoScontrol) {
		return f.withProblem(Fail, "cannot tell without scontrol", "name scontrol in proxyd.yaml: scontrol")
	}
	return f.withProblem(Fail, "cannot tell while slurmctld does not answer", "see slurmctld")
}

func checkSlurmctld(ctx context.Context, n *node) Finding {
	f := Finding{Name: "slurm: slurmctld", Needs: "slurmctld, asked by scontrol"}
	s, err := n.slurm()
	if err != nil {
		return f.withProblem(Fail, err.Error(), "make `scontrol ping` work as root on this node; if scontrol is not in PATH, name it in proxyd.yaml: scontrol")
	}
	out, err := runProgram(ctx, n.cfg.Scontrol, "ping")
	if err != nil {
		return f.withProblem(Fail, err.Error(), "start slurmctld")
	}
	first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return f.withOK(fmt.Sprintf("Slurm %s, cluster %s: %s", s.Version, s.Cluster, first))
}

func checkNode(ctx context.Context, n *node) Finding {
	f := Finding{Name: "slurm: node", Needs: "a node that Slurm calls " + n.cfg.NodeName}
	if _, err := n.slurm(); err != nil {
		return f.withoutSlurm(err)
	}
	out, err := runProgram(ctx, n.cfg.Scontrol, "show", "node", n.cfg.NodeName, "--oneliner")
	if err != nil {
		return f.withProblem(Fail, err.Error(), "set node_name in proxyd.yaml to this node's name in slurm.conf")
	}
	state := fieldOf(out, "State")
	// A trailing * is a slurmd that does not answer, + stands for more flags.
	for _, bad := range []string{"DOWN", "DRAIN", "FAIL", "INVAL", "*"} {
		if strings.Contains(state, bad) {
			return f.withProblem(Warn, "state "+state, "no job starts here: scontrol show node "+n.cfg.NodeName+" says why")
		}
	}
	return f.withOK("state " + state)
}

// fieldOf returns a value of scontrol's one-line output.
func fieldOf(line, key string) string {
	for word := range strings.FieldsSeq(line) {
		if v, ok := strings.CutPrefix(word, key+"="); ok {
			return v
		}
	}
	return ""
}

func checkPlugstack(_ context.Context, n *node) Finding {
	s, err := n.slurm()
	if err != nil {
		return Finding{Name: "slurm: plugin", Needs: plugin + " in plugstack.conf"}.withoutSlurm(err)
	}
	return checkPlugin(s, installedLibraries(n.known.Libexec))
}

func checkProctrack(_ context.Context, n *node) Finding {
	f := Finding{Name: "slurm: proctrack", Needs: "ProctrackType=proctrack/cgroup, or proctrack/linuxproc"}
	s, err := n.slurm()
	switch {
	case err != nil:
		return f.withoutSlurm(err)
	case s.Proctrack != "proctrack/cgroup" && s.Proctrack != "proctrack/linuxproc":
		return f.withProblem(Fail, s.Proctrack, "set it in slurm.conf and restart slurmctld and all slurmd: others signal programs behind our back, or lose them")
	}
	return f.withOK(s.Proctrack)
}

func checkRequeue(_ context.Context, n *node) Finding {
	f := Finding{Name: "slurm: requeue", Needs: "JobRequeue=1"}
	s, err := n.slurm()
	switch {
	case err != nil:
		return f.withoutSlurm(err)
	case !s.JobRequeue:
		return f.withProblem(Warn, "JobRequeue=0", "set JobRequeue=1 in slurm.conf, or let users give --requeue: else a dead node ends the job")
	}
	return f.withOK("JobRequeue=1")
}

// checkKillWait compares the time that a checkpoint takes with the time that Slurm grants. Without
// a measured time the finding says how much memory fits.
func checkKillWait(_ context.Context, n *node) Finding {
	f := Finding{Name: "slurm: killwait", Needs: "KillWait long enough for a checkpoint"}
	s, err := n.slurm()
	if err != nil {
		return f.withoutSlurm(err)
	}
	where, what := n.storeFolder(), "the shared folder"
	if n.cfg.Staging.Folder != "" {
		where, what = n.cfg.Staging.Folder, "the staging folder"
	}
	judge := func(rate float64) Finding {
		return judgeKillWait(s.KillWait, n.cfg.KillWaitMargin, n.known.Capture, rate, what)
	}
	if n.known.Capture > 0 || !n.known.Measure {
		return judge(0) // a measured time is better than a rate, and the folder may be slow or full now
	}
	return n.checkFolder(f, Warn, where, func() Finding {
		rate, err := writeRate(where, 64<<20)
		if err != nil {
			rate = 0
		}
		return judge(rate)
	})
}

func judgeKillWait(killWait, margin, capture time.Duration, rate float64, where string) Finding {
	usable := max(killWait-margin, 0)
	f := Finding{Name: "slurm: killwait", Needs: "KillWait of more than a checkpoint takes and kill_wait_margin"}
	raise := func(seconds time.Duration) string {
		return fmt.Sprintf("set KillWait=%d in slurm.conf and scontrol reconfigure", int(seconds.Seconds()))
	}
	switch {
	case usable == 0:
		return f.withProblem(Fail, fmt.Sprintf("%s, and a margin of %s: no time is left", killWait, margin), raise(60*time.Second))
	case capture > usable:
		return f.withProblem(Fail, fmt.Sprintf("%s; capturing a job took %s", killWait, capture.Round(100*time.Millisecond)), raise(2*capture+margin))
	case capture > usable/2:
		return f.withProblem(Warn, fmt.Sprintf("%s; capturing a job took %s", killWait, capture.Round(100*time.Millisecond)), raise(2*capture+margin))
	case capture > 0:
		return f.withOK(fmt.Sprintf("%s; capturing a job took %s at most", killWait, capture.Round(100*time.Millisecond)))
	case rate == 0:
		return f.withOK(fmt.Sprintf("%s; no job was captured yet", killWait))
	}
	// Half of the rate: capturing does more than writing.
	fits := uint64(rate / 2 * usable.Seconds())
	return f.withOK(fmt.Sprintf("%s; no job was captured yet; about %s of memory can be captured into %s in that time", killWait, bytesText(fits), where))
}

func checkSpool(_ context.Context, n *node) Finding {
	const little = 100 << 20
	f := Finding{Name: "slurm: spool", Needs: "space for job scripts"}
	s, err := n.slurm()
	if err != nil {
		return f.withoutSlurm(err)
	}
	return n.checkFolder(f, Warn, s.SpoolDir, func() Finding {
		fs, err := statFilesystem(s.SpoolDir)
		if err != nil {
			return f.withProblem(Warn, err.Error(), "start slurmd on this node")
		}
		found := fmt.Sprintf("%s, %s free", filepath.Clean(s.SpoolDir), bytesText(fs.free))
		if fs.free < little {
			return f.withProblem(Warn, found, "make space: a job whose script cannot be written drains the node")
		}
		return f.withOK(found)
	})
}
