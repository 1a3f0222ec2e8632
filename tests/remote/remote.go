// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package remote runs test programs elsewhere: on the host of a test cluster, in a virtual machine.
package remote

import (
	"os/exec"
	"regexp"
	"testing"
	"time"
)

var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// RunTests runs a command that runs a test program with -test.v, and reports each test of the program as a subtest.
func RunTests(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	found := verdict.FindAllSubmatch(out, -1)
	for _, v := range found {
		t.Run(string(v[2]), func(t *testing.T) {
			switch string(v[1]) {
			case "FAIL":
				t.Fail()
			case "SKIP":
				t.Skip("skipped there; see the output of the whole")
			}
		})
	}
	if err != nil || len(found) == 0 {
		t.Fatalf("the tests on the other machine failed or did not run: %v\n%s", err, out)
	}
	t.Logf("%d tests", len(found))
}
