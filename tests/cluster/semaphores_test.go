//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSemaphores: named semaphores, as multiprocessing makes them, and other files that were
// opened by a name since removed and have another. Each is captured twice.
func TestSemaphores(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-semaphores", "--nodes", "2")
	program, err := os.ReadFile("testdata/pool.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.homePath("pool.py"), program, 0o644); err != nil {
		t.Fatal(err)
	}
	var counted strings.Builder
	for i := range 100 {
		fmt.Fprintln(&counted, i)
	}
	pool := counted.String() + "squares 328350\nvalue 600"
	for name, test := range map[string]struct{ script, want string }{
		"spawn":      {"python3 pool.py spawn", pool},
		"forkserver": {"python3 pool.py forkserver", pool},
		"fork":       {"python3 pool.py fork", pool},
		"default":    {"srun python3 pool.py default", pool},
		"links": { // a write by one name is read by the other, before and after
			`for d in /tmp /var/tmp /dev/shm; do
				exec {f}<>$d/one; ln $d/one $d/two; rm $d/one; eval "f_${d//\//_}=$f"
			done
			for i in $(seq 0 99); do
				echo $i; for d in /tmp /var/tmp /dev/shm; do f=f_${d//\//_}; echo $i >&${!f}; done; sleep 0.15
			done
			for d in /tmp /var/tmp /dev/shm; do md5sum < $d/two; stat -c %h $d/two; ls -A $d; done`,
			counted.String() + strings.TrimSpace(strings.Repeat("9a10f4f09341c2db76a16b44f841c551  -\n1\ntwo\n", 3)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := c.submitJob(t, "--singularity", test.script)
			for _, line := range []string{"8", "40"} {
				c.waitForLine(t, job, line)
				c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
				c.runAsRoot(t, "scontrol requeue "+job)
				c.restartJob(t, job, "")
			}
			c.checkCompleted(t, job, test.want)
		})
	}
}
