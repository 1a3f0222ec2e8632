//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// connects holds as many connections to proxyd's port as its argument says for a while, and sends a client's first bytes
// over each. proxyd may close some.
const connects = `import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]) + 100,) * 2)
all = []
for _ in range(int(sys.argv[1])):
    all.append(socket.create_connection(("n1", 6830)))
    try: all[-1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    except OSError: pass
print("begin", flush=True); time.sleep(5); print("over", flush=True)`

// readProxydStatus runs a script with proxyd's folder of /proc on n1 as $d, and returns its output.
func (c protected) readProxydStatus(t *testing.T, script string) string {
	t.Helper()
	return strings.TrimSpace(c.runOn(t, "n1", "", "bash", "-euc", "d=/proc/$(pgrep -of '^[^ ]*proxyd daemon'); "+script).mustSucceed(t))
}

// peakMemory returns the most memory that proxyd has had on n1 since the last call, MiB.
func (c protected) peakMemory(t *testing.T) int {
	t.Helper()
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(c.readProxydStatus(t, "cat $d/status; echo 5 >$d/clear_refs"))
	if found == nil {
		t.Fatal("no VmHWM")
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n >> 10
}

// floodDelay bounds the time by which a flood may prolong a checkpoint. Before requests took turns for munge, 250
// connections prolonged a checkpoint from 0.4 s to 19 s.
const floodDelay = 3 * time.Second

// checkpointTime makes a checkpoint of a job, and returns how long alice waited for the command.
func (c protected) checkpointTime(t *testing.T, job string) time.Duration {
	t.Helper()
	begin := time.Now()
	c.runOn(t, "ctl", "alice", "singctl", "checkpoint", "-q", job).mustSucceed(t)
	return time.Since(begin).Round(10 * time.Millisecond)
}

// TestFloods: floods of srun.sock by a job of alice's and by alice without a job, and floods of proxyd's port by alice,
// neither end the daemon, nor make it large, nor keep other users' jobs from being captured.
func TestFloods(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-floods", "--nodes", "1")
	c.copyPrograms(t, "flood.py", "hanging_fuse.py", "signed_socket.py")
	mount := c.runOn(t, "n1", "", "bash", "-uc", "mkdir /mnt/hangs; (python3 /shared/home/alice/hanging_fuse.py /mnt/hangs </dev/null >/run/fuse.log 2>&1 & echo $! >/run/fuse.pid); "+
		"for n in {1..100}; do mountpoint -q /mnt/hangs && exit; sleep 0.1; done; cat /run/fuse.log; exit 1")
	hangs := mount.code == 0
	if _, err := os.Stat("/dev/fuse"); err == nil && !hangs {
		t.Fatalf("no FUSE on n1, although the machine has /dev/fuse: %s%s", mount.out, mount.err)
	}
	t.Run("a socket that says who writes", func(t *testing.T) {
		job := c.submitJob(t, "--singularity", "exec python3 signed_socket.py")
		c.waitForEnd(t, job)
		if got := c.jobLog(job); got != "from the step, written by the user" {
			t.Errorf("log: %s", got)
		}
	})
	victim := c.submitJob(t, "--singularity", endOfScript("srun echo after"))
	c.waitForLine(t, victim, "ready")
	process := c.readProxydStatus(t, "echo $d")
	c.peakMemory(t)
	alone := c.checkpointTime(t, victim)
	usual := c.peakMemory(t)

	flood := func(name string, attack func(*testing.T) (log func() string, end func())) {
		t.Run(name, func(t *testing.T) {
			log, end := attack(t)
			said := func(line string) {
				waitFor(t, 60*time.Second, func() (bool, string) { return strings.Contains(log()+"\n", line+"\n"), log() })
			}
			said("begin")
			took := c.checkpointTime(t, victim)
			peak := c.peakMemory(t)
			said("over")
			end()
			peak = max(peak, c.peakMemory(t))
			t.Logf("a checkpoint took %s, undisturbed %s; proxyd had %d MiB at most, %d MiB undisturbed; %s",
				took, alone, peak, usual, strings.ReplaceAll(log(), "\n", " "))
			if took > alone+floodDelay {
				t.Errorf("a checkpoint took %s, undisturbed %s: want at most %s more", took, alone, floodDelay)
			}
			if peak > usual+128 {
				t.Errorf("proxyd has had %d MiB, undisturbed %d MiB", peak, usual)
			}
			if now := c.readProxydStatus(t, "echo $d"); now != process {
				t.Errorf("proxyd is %s, was %s", now, process)
			}
		})
	}
	inJob := func(script string) func(*testing.T) (func() string, func()) {
		return func(t *testing.T) (func() string, func()) {
			job := c.submitJob(t, "--singularity", script+"; echo over")
			return func() string { return c.jobLog(job) }, func() { c.runAsRoot(t, "scancel "+job) }
		}
	}
	flood("128 calls of 6 MiB", inJob("echo begin; for n in {1..8}; do python3 flood.py 16 & done; wait"))
	for _, n := range []string{"250", "6000"} { // from the host at which the timed checkpoint is asked for
		flood(n+" connections", func(t *testing.T) (func() string, func()) {
			log := "connections" + n + ".log"
			c.runScript(t, "nohup python3 -c '"+connects+"' "+n+" </dev/null >~/"+log+" 2>&1 &")
			return func() string {
				b, _ := os.ReadFile(c.homePath(log)) // it may not be there yet
				return string(b)
			}, func() {}
		})
	}
	const hang = "descriptors that hang"
	if !hangs {
		t.Run(hang, func(t *testing.T) { t.Skip("this machine mounts no FUSE") })
	} else {
		flood(hang+", from outside of any job", c.sendHangingFiles)
		flood(hang, inJob("echo begin; for n in {1..8}; do python3 flood.py 4 /mnt/hangs/file & done; sleep 5"))
		c.runOn(t, "n1", "", "bash", "-euc", "kill $(cat /run/fuse.pid)").mustSucceed(t) // programs that wait for an answer get an error
	}
	c.runScript(t, "touch ~/go."+victim)
	c.waitForLine(t, victim, "after")
}

// sendHangingFiles has alice, on n1 and in no job, send descriptors of a file that hangs to srun.sock.
func (c protected) sendHangingFiles(t *testing.T) (log func() string, end func()) {
	t.Helper()
	countProcesses := func() int {
		n, err := strconv.Atoi(c.readProxydStatus(t, "pgrep -c -P ${d#/proc/} || true"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := countProcesses()
	c.runOn(t, "n1", "alice", "bash", "-uc", "cd /shared/home/alice; (echo begin; for n in {1..8}; do python3 flood.py 4 /mnt/hangs/file & done; "+
		"sleep 5; echo over) </dev/null >outside.log 2>&1 &").mustSucceed(t)
	log = func() string {
		b, _ := os.ReadFile(c.homePath("outside.log")) // it may not be there yet
		return string(b)
	}
	end = func() {
		// A process that has received such descriptors cannot end. Each caller hangs after its call, in a write to its
		// own file.
		waitFor(t, 20*time.Second, func() (bool, string) {
			now := countProcesses()
			return now <= before, fmt.Sprintf("proxyd has %d processes, and had %d before callers in no job came", now, before)
		})
		hung := c.runOn(t, "n1", "", "pgrep", "-c", "-u", "alice", "-f", "^python3 flood.py 4 /mnt/hangs/file")
		if strings.TrimSpace(hung.out) != "8" {
			t.Errorf("%s callers hang, want 8: %s", strings.TrimSpace(hung.out), hung.err)
		}
	}
	return log, end
}
