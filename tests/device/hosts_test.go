// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// host is a device server: how many ranks the server has, and how many devices the ranks have.
type host struct{ ranks, devices int }

// TestHosts: ranks of a single communicator under several device servers, as on several hosts, find each other, and get
// the same bits as under a single device server, with a device for each rank or not.
func TestHosts(t *testing.T) {
	w := soft.Need(t)
	program := w.Compile(t, "testdata/parts/hosts.c")
	var want []string
	for _, hosts := range [][]host{{{4, 4}}, {{4, 2}}, {{4, 1}}, {{2, 2}, {2, 1}}, {{1, 1}, {3, 2}}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			got := runTogether(t, w, program, hosts)
			if want == nil {
				want = got
			}
			if len(got) != 4 || !slices.Equal(got, want) {
				t.Errorf("ranks under several servers printed %q, and under one server %q", got, want)
			}
		})
	}
}

// runTogether runs a program under as many device servers, and returns the printed lines, sorted.
func runTogether(t *testing.T, w *soft.World, program string, hosts []host) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "id")
	all := 0
	for _, h := range hosts {
		all += h.ranks
	}
	var mu sync.Mutex
	var lines []string
	var parts sync.WaitGroup
	first := 0
	for _, h := range hosts {
		c := exec.CommandContext(ctx, filepath.Join(w.Dir, "proxyd"), "run", "--soft", strconv.Itoa(h.devices), "--address", "127.0.0.1", "--",
			program, strconv.Itoa(first), strconv.Itoa(h.ranks), strconv.Itoa(all), file)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
		c.WaitDelay = 5 * time.Second
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		first += h.ranks
		parts.Go(func() {
			err := c.Run()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("rank %v failed: %v\n%s", c.Args, err, &stderr)
			}
			lines = append(lines, strings.Split(strings.TrimSpace(stdout.String()), "\n")...)
		})
	}
	parts.Wait()
	slices.Sort(lines)
	return lines
}
