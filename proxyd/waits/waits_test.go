// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package waits_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

func TestSleepUnlessDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !waits.SleepUnlessDone(t.Context(), time.Hour) || time.Since(begin) != time.Hour {
			t.Errorf("slept for %s, want an hour and true", time.Since(begin))
		}
		begin = time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if waits.SleepUnlessDone(short, time.Hour) || time.Since(begin) != time.Minute {
			t.Errorf("slept for %s with a context of a minute, want a minute and false", time.Since(begin))
		}
	})
}

func TestIsReadable(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	if waits.IsReadable(p[0]) {
		t.Error("an empty pipe is readable")
	}
	unix.Close(p[1])
	if !waits.IsReadable(p[0]) {
		t.Error("a pipe without a writer is not readable: a read does not wait")
	}
}

// TestWaitForCgroupEvent looks at what needs no cgroup: a plain file stands for cgroup.events, of which the kernel tells
// no changes. The tests of capsule and of device/life wait for events of cgroups.
func TestWaitForCgroupEvent(t *testing.T) {
	dir := t.TempDir()
	if err := waits.WaitForCgroupEvent(t.Context(), dir, "populated 0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no cgroup: %v, want ErrNotExist", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.events"), []byte("populated 0\nfrozen 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"populated 0", "frozen 1"} {
		if err := waits.WaitForCgroupEvent(t.Context(), dir, line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"populated 1", "frozen", "opulated 0"} {
		if err := waits.WaitForCgroupEvent(ended, dir, line); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want Canceled: the file does not have that line", line, err)
		}
	}
}
