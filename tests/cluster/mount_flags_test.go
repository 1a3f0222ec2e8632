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

// looksAtFolders is a script that prints, as often as a file is made for it, which flags its mounts have and which
// rights set-user-ID programs of root's get there.
const looksAtFolders = `look() {
	echo "waits $1"; until [ -e ~/look.$SLURM_JOB_ID.$1 ]; do sleep 0.1; done
	for d in /tmp /var/tmp /dev/shm; do
		options=,$(awk -v d=$d '$5 == d { o = $6 } END { print o }' /proc/self/mountinfo),
		for o in nosuid nodev noexec; do [[ $options == *,$o,* ]] && echo -n "$o "; done
		echo "$d: $($d/tool -u 2>&1 | grep -o 'Permission denied\|^[0-9]*$')"
	done; echo "looked $1"
}
look fresh; look restored`

// inFolders runs a command of root's in each of the private folders of a job, when the job's script is there.
func (c protected) inFolders(t *testing.T, node, command string) {
	t.Helper()
	const find = `for p in $(pgrep -u alice slurm_script); do [ $(readlink /proc/$p/ns/mnt) = $(readlink /proc/self/ns/mnt) ] || { echo $p; break; }; done`
	var script string
	waitFor(t, 90*time.Second, func() (bool, string) {
		script = strings.TrimSpace(c.runOn(t, node, "", "bash", "-uc", find).out)
		return script != "", "no script runs in a capsule"
	})
	c.runOn(t, node, "", "nsenter", "-t", script, "-m", "bash", "-euc", "for d in /tmp /var/tmp /dev/shm; do cd $d; "+command+"; done").mustSucceed(t)
}

// lookAtFolders has root copy id, with its set-user-ID bit, into the private folders of a job, and the job look at the folders.
func (c protected) lookAtFolders(t *testing.T, job, node, when string) {
	t.Helper()
	c.waitForLine(t, job, "waits "+when)
	c.inFolders(t, node, "cp /usr/bin/id tool; chmod 4755 tool")
	c.runScript(t, "touch ~/look."+job+"."+when)
	c.waitForLine(t, job, "looked "+when)
}

// TestMountFlags: the mount flags of a node's /tmp, /var/tmp and /dev/shm (nosuid, nodev, noexec) hold for the private
// folders that a job has in their place, in its first run and after a restore: a job sees the flags in its mounts, and
// by the rights that set-user-ID programs get. On a node with fewer flags, the same programs run, and have root's
// rights.
func TestMountFlags(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-forbids", "--nodes", "2")
	c.runOn(t, "n1", "", "bash", "-euc", `mount -o remount,nosuid,nodev,noexec /tmp; mount -o remount,nosuid,nodev,noexec /dev/shm
		mount -t tmpfs -o nosuid,mode=1777 tmpfs /var/tmp`).mustSucceed(t)
	for _, test := range []struct {
		node string
		want []string // of /tmp, /var/tmp and /dev/shm
	}{
		{"n1", []string{"nosuid nodev noexec /tmp: Permission denied", "nosuid /var/tmp: 1001", "nosuid nodev noexec /dev/shm: Permission denied"}},
		{"n2", []string{"nosuid nodev /tmp: 1001", "/var/tmp: 0", "nosuid nodev /dev/shm: 1001"}},
	} {
		t.Run(test.node, func(t *testing.T) {
			t.Parallel()
			job := c.submitJob(t, "--singularity -w "+test.node, looksAtFolders)
			c.lookAtFolders(t, job, test.node, "fresh")
			c.waitForLine(t, job, "waits restored")
			c.inFolders(t, test.node, "rm tool")
			c.runAsRoot(t, "scontrol requeue "+job)
			c.restartJob(t, job, "")
			c.lookAtFolders(t, job, test.node, "restored")
			if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
				t.Errorf("the job ended as %s, want COMPLETED", s)
			}
			looked := strings.Join(test.want, "\n")
			want := fmt.Sprintf("waits fresh\n%s\nlooked fresh\nwaits restored\n%s\nlooked restored", looked, looked)
			if got := c.jobLog(job); got != want {
				t.Errorf("log:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
