// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slicing

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// shareLimit is how long a run may take. A program that takes longer is killed.
const shareLimit = 4 * time.Minute

// marks are the two pipes of a program that was started with --marks.
type marks struct {
	reached, proceed *os.File // the test's ends
	theirs           []*os.File
}

// makeMarks makes the pipes. The program inherits theirs, in this order.
func makeMarks(t testing.TB) *marks {
	t.Helper()
	reached, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, proceed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return &marks{reached, proceed, []*os.File{out, in}}
}

// closeTheirs closes the program's ends in this process, so that the program's end is seen.
func (m *marks) closeTheirs() {
	for _, f := range m.theirs {
		f.Close()
	}
}

// closeOurs closes the test's ends.
func (m *marks) closeOurs() {
	m.reached.Close()
	m.proceed.Close()
}

// waitForRanks waits until all ranks stand at a mark.
func (m *marks) waitForRanks(ranks int) error {
	_, err := io.ReadFull(m.reached, make([]byte, ranks))
	return err
}

// letRanksGo lets all ranks go on. A rank reads a single byte at each mark, and comes to the next mark only with all others.
func (m *marks) letRanksGo(ranks int) error {
	_, err := m.proceed.Write(make([]byte, ranks))
	return err
}

// Share runs a case with so many ranks, with more flags of "proxyd device" that say on which devices. It counts from the end
// of the first step, which is mostly the program's beginning, or of the steps before, to the end of the last step: at both
// moments all ranks stand still and have no work left. The folder of w has the programs of tests/workloads.
func (c *Case) Share(t testing.TB, w *soft.World, ranks int, flags ...string) Run {
	t.Helper()
	servers := w.Servers(t, 1, ranks, flags...)
	defer servers.Kill()
	m := makeMarks(t)
	defer m.closeOurs()
	before := max(c.Before, 1)
	args := append(c.makeArguments(ranks, before+c.Steps), "--marks", fmt.Sprintf("3,4,%d", before))
	program := servers.Command(t, 0, filepath.Join(w.Dir, c.Name), args...)
	var stdout, stderr soft.Output
	program.Stdout, program.Stderr, program.ExtraFiles = &stdout, &stderr, m.theirs
	err := program.Start()
	m.closeTheirs()
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(shareLimit, func() { _ = program.Cancel() })
	defer late.Stop()
	counted, err := countBetweenMarks(t, servers, m, ranks)
	if err != nil {
		_ = program.Cancel() // the ranks that stand at a mark end with it
	}
	if ended := program.Wait(); err != nil || ended != nil {
		t.Fatalf("workload %s %v, flags %v: %v, %v\n%s%s%s", c.Name, args, flags, err, ended, &stdout, &stderr, &servers.Stderr)
	}
	counted.Lines = splitLines(stdout.String())
	return counted
}

// countBetweenMarks lets a program run from the first mark to the last mark, and on to the end.
func countBetweenMarks(t testing.TB, servers *soft.Servers, m *marks, ranks int) (r Run, err error) {
	if err := m.waitForRanks(ranks); err != nil {
		return r, fmt.Errorf("wait for the first mark: %w", err)
	}
	first, err := servers.Status(t.Context(), 0)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := m.letRanksGo(ranks); err != nil {
		return r, err
	}
	if err := m.waitForRanks(ranks); err != nil {
		return r, fmt.Errorf("wait for the last mark: %w", err)
	}
	r.Took = time.Since(began)
	last, err := servers.Status(t.Context(), 0)
	if err != nil {
		return r, err
	}
	r.SharingStatus = sumDevices(last)
	r.leaveOut(sumDevices(first))
	for _, d := range last.Sharing {
		if d.Spaces > 1 {
			r.Shared = append(r.Shared, d)
		}
	}
	return r, m.letRanksGo(ranks)
}

// leaveOut subtracts the counts from before. Fields that are no counts, as the peak, keep their values of the end.
func (r *Run) leaveOut(before server.SharingStatus) {
	r.Instructions -= before.Instructions
	r.Switches -= before.Switches
	r.Interrupted -= before.Interrupted
	r.SwappedOut -= before.SwappedOut
	r.SwappedIn -= before.SwappedIn
	r.Once -= before.Once
	r.Own -= before.Own
	r.Compared -= before.Compared
	r.Taken -= before.Taken
	r.Unshared -= before.Unshared
}
