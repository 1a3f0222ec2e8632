// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slicing measures the overhead of a workload's ranks that share software GPUs, for tests.
package slicing

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// The machine of the model: a V100 with ResNet-50. The mini-batch of ResNet-50 is the shortest of the paper's, so a switch costs the most.
// Each workload stands for ResNet-50: its instructions for the time of a mini-batch, the memory of a rank for the whole device.
const (
	modelBatch  = 210 * time.Millisecond  // of a rank, alone
	modelSwap   = 1333 * time.Millisecond // 16 GB by PCIe 3, in a single direction
	modelSwitch = 1500 * time.Microsecond // of any switch, beside its moves
	modelRead   = 18 * time.Millisecond   // 16 GB of the device's memory by the device, at 900 GB/s; to write them takes as long
)

// Case is a workload. Its ranks are to share devices.
type Case struct {
	Name  string // of the program of tests/workloads
	Steps int    // that are measured
	// Before is the number of steps before these that Share does not count: in these, the device learns what each kernel
	// reads. 0: the first step.
	Before int
	Args   []string
	// ByNumber: each rank sees all GPUs and chooses its own by number. Otherwise a rank sees only its own GPU.
	ByNumber bool
}

// String returns the workload's command line without the number of ranks and steps.
func (c *Case) String() string {
	name := strings.Join(append([]string{c.Name}, c.Args...), " ")
	if c.ByNumber {
		name += ", GPUs by number"
	}
	return name
}

// Run has the output of a run, and the counts of all devices of the machine together: during the whole run, or between
// marks.
type Run struct {
	Lines []string
	Took  time.Duration
	// Shared has the counts, since the server began, of the devices that several processes shared at the last mark.
	Shared []server.SharingStatus
	server.SharingStatus
}

// makeArguments returns the arguments of the program for so many ranks, as processes, and steps.
func (c *Case) makeArguments(ranks, steps int) []string {
	processes := "--own-device"
	if c.ByNumber {
		processes = "--processes"
	}
	return append([]string{"--ranks", fmt.Sprint(ranks), processes, "--steps", fmt.Sprint(steps)}, c.Args...)
}

// Run runs some steps of a case.
func (c *Case) Run(t testing.TB, w *soft.World, ranks, steps int, flags ...string) Run {
	t.Helper()
	status := filepath.Join(t.TempDir(), "status")
	args := c.makeArguments(ranks, steps)
	began := time.Now()
	r := w.Run(t, soft.Program{Devices: ranks, On: append(flags, "--status", status), Path: filepath.Join(w.Dir, c.Name), Args: args, Limit: 4 * time.Minute})
	took := time.Since(began)
	if r.Exit != 0 {
		t.Fatalf("%s %v %v: exit status %d\n%s%s", c.Name, args, flags, r.Exit, r.Stdout, r.Stderr)
	}
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	var st server.Status
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	return Run{Lines: splitLines(r.Stdout), Took: took, SharingStatus: sumDevices(&st)}
}

// splitLines returns the lines of a program's output.
func splitLines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// sumDevices returns the sums of the counts of all devices of the machine, and the largest peak.
func sumDevices(st *server.Status) (out server.SharingStatus) {
	for _, d := range st.Sharing {
		out.Instructions += d.Instructions
		out.Switches += d.Switches
		out.Interrupted += d.Interrupted
		out.SwappedOut += d.SwappedOut
		out.SwappedIn += d.SwappedIn
		out.Once += d.Once
		out.Own += d.Own
		out.Compared += d.Compared
		out.Taken += d.Taken
		out.Unshared += d.Unshared
		out.Why = d.Why
		out.Peak = max(out.Peak, d.Peak)
	}
	return out
}

// Overhead is the additional time, in percent, that devices work by the model for ranks that share them, compared with
// ranks that have devices of their own. The model counts the instructions that devices have executed. No measured time
// is in the result.
func (c *Case) Overhead(ranks int, alone, shared Run) float64 {
	ideal := float64(ranks*c.Steps) * modelBatch.Seconds()
	took := ideal * float64(shared.Instructions) / float64(alone.Instructions)
	took += float64(shared.Switches) * modelSwitch.Seconds()
	took += float64(shared.SwappedOut+shared.SwappedIn) / float64(alone.Peak) * modelSwap.Seconds()
	took += float64(shared.Compared+2*(shared.Taken+shared.Unshared)) / float64(alone.Peak) * modelRead.Seconds()
	return 100 * (took/ideal - 1)
}
