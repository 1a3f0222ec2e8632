//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	daemonSocket = "/run/node-daemon"
	daemonLog    = "/run/node-daemon.log"
)

// startNodeDaemons starts a daemon of root's on each node, outside of all jobs, and returns when they answer.
func (c protected) startNodeDaemons(t *testing.T, nodes ...string) {
	t.Helper()
	c.copyPrograms(t, "node_daemon.py", "node_client.py")
	for _, node := range nodes {
		c.runOn(t, node, "", "bash", "-euc", fmt.Sprintf(`setsid python3 /shared/home/alice/node_daemon.py %[1]s %[2]s >/dev/null 2>&1 </dev/null &
			until [ -S %[1]s ]; do sleep 0.05; done`, daemonSocket, daemonLog)).mustSucceed(t)
	}
}

// TestNodeDaemons: a job of an ordinary user is connected by unix sockets to a daemon of root's and to syslog. A
// checkpoint in place disturbs no connection; a move resets both, and the job goes on as after a restart of the
// daemons.
func TestNodeDaemons(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-daemons", "--nodes", "2")
	c.startNodeDaemons(t, "n1", "n2")
	var doubled strings.Builder
	for n := range 100 {
		fmt.Fprintln(&doubled, n, 2*n)
	}
	const client = "python3 node_client.py " + daemonSocket
	for name, script := range map[string]string{"script": "exec " + client, "step": "srun " + client} {
		t.Run(name, func(t *testing.T) {
			job := c.submitJob(t, "--singularity", script)
			c.waitForLine(t, job, "8 16")
			waitFor(t, 20*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				reset := ", which is outside of the job: a restore resets it"
				return strings.Contains(said, "unix socket "+daemonSocket+reset) && strings.Contains(said, "unix socket /dev/log"+reset), said
			})
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0)
			c.waitForLine(t, job, "30 60")
			node := c.showColumn(t, job, "NodeList")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, node)
			waitFor(t, 60*time.Second, func() (bool, string) {
				said := c.runOn(t, "ctl", "alice", "singctl", "show", job).out
				return strings.Contains(said, "connections to /dev/log,"+daemonSocket), said
			})
			c.checkCompleted(t, job, doubled.String()+"again 1")
			var logged string
			for _, n := range []string{"n1", "n2"} {
				logged += c.runOn(t, n, "", "cat", daemonLog).mustSucceed(t)
				c.runOn(t, n, "", "truncate", "-s0", daemonLog).mustSucceed(t)
			}
			for n := range 100 {
				if strings.Count(logged, fmt.Sprintf("asked %d\n", n)) != 1 {
					t.Errorf("syslog did not get message %d once:\n%s", n, logged)
				}
			}
		})
	}
	t.Run("between steps", func(t *testing.T) {
		job := c.submitJob(t, "--singularity", `python3 node_daemon.py /tmp/s & until [ -S /tmp/s ]; do sleep 0.05; done; srun python3 -c '
import socket, time
s = socket.socket(socket.AF_UNIX); s.connect("/tmp/s"); s.sendall(b"1\n"); print(1, s.recv(9).decode(), flush=True); time.sleep(1000)'`)
		c.waitForLine(t, job, "1 2")
		const step = `program s0-1\.0 of the job by a unix socket, /tmp/s: have a single task start both programs, or have them connect by TCP`
		// Found by the look half a minute after the start, before any checkpoint is asked for.
		waitFor(t, 90*time.Second, func() (bool, string) {
			log := c.jobLog(job)
			return strings.Contains(log, "singularity: no checkpoint can be made: ") && strings.Contains(log, "is connected to program s0-1.0 of the job by a unix socket, /tmp/s"), log
		})
		c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, `^  batch on n[12]: process \d+ \(python3\): is connected to `+step+`$`,
			`^  s0-1\.0 on n[12]: process \d+ \(python3\): is connected to program batch of the job by a unix socket, /tmp/s: `)
		c.runAsRoot(t, "scancel "+job)
	})
	t.Run("refuse", func(t *testing.T) {
		job := c.submitJob(t, "--singularity --singularity-outside=refuse", "exec "+client)
		c.waitForLine(t, job, "1 2")
		c.checkCommand(t, "alice", "singctl checkpoint -q "+job, 5, `is connected to the unix socket (/dev/log|`+daemonSocket+`), which is outside of the job`)
		c.runAsRoot(t, "scancel "+job)
	})
}
