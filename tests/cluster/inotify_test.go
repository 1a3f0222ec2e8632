//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
)

// watch is a program that watches a folder by inotify for new files, and prints the name of the first.
const watch = `python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None); watch = libc.inotify_init()
assert libc.inotify_add_watch(watch, sys.argv[1].encode(), 0x100) == 1
print("watches", flush=True)
print("sees", os.read(watch, 4096)[16:].rstrip(b"\0").decode(), flush=True)' `

// TestInotify: a watch on an overlay file system, as the root of these nodes is, keeps a job from being captured: CRIU could take
// another file for the watched file. Other watches are captured, and report events in their folder after a restore.
func TestInotify(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-watches", "--nodes", "2", "--with-corpus")
	for path, test := range map[string]struct {
		code int
		said string
	}{
		"/etc":     {5, `watches (a file that cannot be found again|files of an overlay file system) \(inotify\)`},
		"/dev/shm": {0, ``},
		"$HOME":    {0, ``},
	} {
		t.Run(path, func(t *testing.T) {
			job := c.submitJob(t, "--singularity", "cd; rm -f go new\n"+watch+path+" &\nuntil [ -e go ]; do sleep 0.2; done; : >"+path+"/new; wait")
			c.waitForLine(t, job, "watches")
			c.checkCommand(t, "alice", "singctl checkpoint "+job, test.code, test.said)
			if test.code != 0 {
				c.runAsRoot(t, "scancel "+job)
				c.waitForEnd(t, job)
				return
			}
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			c.runOn(t, "ctl", "alice", "touch", "go").mustSucceed(t)
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			if got := c.jobLog(job); got != "watches\nsees new" {
				t.Errorf("its log:\n%s", got)
			}
		})
	}
}
