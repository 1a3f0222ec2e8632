//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// speedLine matches the line in which TestSpeed of proxyd/criu prints the times of an operation, run by run.
var speedLine = regexp.MustCompile(`: (plain dump|dump|dump to memory|plain restore|restore|restore from memory) +\[(.*)\] median`)

// plainCRIU compares proxyd/criu with plain criu, by a test of that package that runs on a
// node.
func plainCRIU(t *testing.T, c *cluster) (all []figure) {
	build := exec.Command("go", "test", "-c", "-o", c.sharedPath("criu.test"), "github.com/singularity-slurm/singularity-slurm/proxyd/criu")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the node's libc is another one
	runCommand(t, build)
	fit, left := fittingSizes(t)
	for _, mib := range fit {
		times := map[string][]float64{}
		// The benchmark fails when an aim is missed. Here the table shows that, so the error is ignored.
		relayOutput(t, exec.Command(*mcProgram, "exec", "--name", c.name, "n1", "--", "env", "-C", "/root", "/shared/bench/criu.test",
			"-test.v", "-test.timeout=15m", "-test.run=TestSpeed", "-speed", strconv.Itoa(mib)), func(line string) {
			m := speedLine.FindStringSubmatch(line)
			if m == nil {
				return
			}
			for word := range strings.FieldsSeq(m[2]) {
				d, err := time.ParseDuration(word)
				if err != nil {
					t.Errorf("line %q of TestSpeed: %v", line, err)
				}
				times[m[1]] = append(times[m[1]], d.Seconds())
			}
		})
		for _, f := range []struct{ ours, plain, what string }{
			{"dump", "plain dump", "criu, dump to tmpfs"},
			{"dump to memory", "plain dump", "criu, dump into a stream"},
			{"restore", "plain restore", "criu, restore from tmpfs"},
			{"restore from memory", "plain restore", "criu, restore from a stream"},
		} {
			s := turns{times[f.plain], times[f.ours]}
			if len(s.ours) == 0 || len(s.ours) != len(s.plain) {
				t.Fatalf("TestSpeed said nothing of %q: %v", f.ours, times)
			}
			all = append(all, s.ratio(fmt.Sprintf("%s, %d MiB", f.what, mib), formatSeconds, aimCRIU))
		}
	}
	return append(all, left...)
}

// relayOutput runs a command, logs each line of its output, and calls see with the line.
func relayOutput(t *testing.T, cmd *exec.Cmd, see func(string)) {
	t.Helper()
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	done := make(chan error, 1)
	go func() {
		err := cmd.Run()
		w.Close()
		done <- err
	}()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.Log(lines.Text())
		see(lines.Text())
	}
	if err := <-done; err != nil {
		t.Logf("%q: %v", cmd.Args, err)
	}
}
