// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// TestLostCheckpointsAreNotNamed: the comment of a job that is held because its checkpoints are gone names no
// checkpoint, so that the job begins anew after its release.
func TestLostCheckpointsAreNotNamed(t *testing.T) {
	if n := reports.NamedCheckpoint("singularity: " + reports.Held + errCheckpointsLost.Error()); n != 0 {
		t.Errorf("the comment names checkpoint %d", n)
	}
}

// TestNodeOfScontrol: a program that runs scontrol goes on where the node's scontrol is the same, wherever capsules show it.
func TestNodeOfScontrol(t *testing.T) {
	const file = "/usr/bin/ls" // any program, in the place of scontrol
	c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	c.Scontrol, c.RealScontrol = file, "/run/nowhere/scontrol"
	here, err := host.FingerprintOf("/", file)
	if err != nil || here.Files[file] == "" {
		t.Fatalf("FingerprintOf %s: %v", file, err)
	}
	m := &records.CapsuleMeta{Fingerprint: here}
	m.Fingerprint.Files = map[string]string{c.RealScontrol: here.Files[file]}
	if err := c.checkCompatible(m); err != nil {
		t.Error(err)
	}
	m.Fingerprint.Files[c.RealScontrol] = "another build"
	if err := c.checkCompatible(m); !errors.Is(err, host.ErrIncompatible) || !strings.Contains(err.Error(), file) {
		t.Errorf("another build of scontrol: %v", err)
	}
}

// TestRunOfTask: when Slurm has counted a requeue and has not ended the run, a task of a step belongs to the run before.
func TestRunOfTask(t *testing.T) {
	for _, tt := range []struct {
		name, state, key string
		told, shown      int
		want             int
	}{
		{"runs", "RUNNING", "s0-1", 2, 2, 2},
		{"runs, and its script has set another number", "RUNNING", "s0-1", 0, 2, 2},
		{"is being requeued", "COMPLETING", "s0-1", 2, 3, 2},
		{"is being cancelled", "COMPLETING", "s0-1", 2, 2, 2},
		{"waits again", "PENDING", "s0-1", 0, 1, 0},
		{"of another program's srun", "COMPLETING", "", 0, 3, 3},
	} {
		got := runOfTask(&slurm.Job{State: tt.state, Restarts: tt.shown}, nodesocket.Join{Key: tt.key, Restarts: tt.told})
		if got != tt.want {
			t.Errorf("%s: run %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestWaitingTaskIsTerminated: a task that waits for its capsule and was sent SIGTERM waits until the run is known and
// the outcome is decided, and no longer.
func TestWaitingTaskIsTerminated(t *testing.T) {
	j := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil).jobFor(7)
	ctx, end := context.WithCancelCause(t.Context())
	terminated, known := make(chan struct{}), make(chan struct{})
	over := make(chan struct{})
	go func() {
		j.endWaitWhenTerminated(ctx, terminated, known, end)
		close(over)
	}()
	close(terminated)
	if j.termination.CurrentState() != runs.TerminationNone {
		t.Error("the meaning of a SIGTERM is decided before the run is known")
	}
	j.termination.WithholdFor(withheldSignal{endWait: func() {}}) // a decision is in progress
	close(known)
	<-over
	if ctx.Err() != nil {
		t.Fatal("the wait ends before the decision")
	}
	if programs := endWaits(j.termination.EndDecision()); len(programs) != 0 {
		t.Errorf("programs that get the signal: %v, want none", programs)
	}
	if err := context.Cause(ctx); !errors.Is(err, errTerminated) {
		t.Errorf("the wait ends with %v", err)
	}
}

func TestRewriteHosts(t *testing.T) {
	rec := &records.Record{Nodes: []string{"n1", "n2"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("100.64.0.2")}}
	got := rewriteHosts("127.0.0.1 localhost # n1\n10.0.0.1\tctl\n10.0.0.2 n1.site n1 login\n10.0.0.3 n2\n# nothing\n10.0.0.4 n12\n", rec)
	want := "100.64.0.1\tn1\n100.64.0.2\tn2\n127.0.0.1\tlocalhost\n10.0.0.1\tctl\n10.0.0.2\tlogin\n10.0.0.4\tn12\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
