//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

// watch is a program that watches a path by inotify.
const watch = `python3 -c '
import ctypes, sys, time
libc = ctypes.CDLL(None); assert libc.inotify_add_watch(libc.inotify_init(), sys.argv[1].encode(), 0x100) == 1
print("watches", flush=True); time.sleep(600)' `

// TestWatches: a watch on an overlay file system, as the root of these nodes is, keeps a job from being captured: CRIU could take
// another file for the watched file. Other watches are captured.
func TestWatches(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-watches", "--nodes", "1", "--with-corpus")
	for path, test := range map[string]struct {
		code int
		said string
	}{
		"/etc":     {1, `watches a file that cannot be found again \(inotify\)`},
		"/dev/shm": {0, ``},
	} {
		t.Run(path, func(t *testing.T) {
			job := c.submitJob(t, "--singularity", "exec "+watch+path)
			c.waitForLine(t, job, "watches")
			c.checkCommand(t, "alice", "singctl checkpoint "+job, test.code, test.said)
			c.runAsRoot(t, "scancel "+job)
			c.waitForEnd(t, job)
		})
	}
}
