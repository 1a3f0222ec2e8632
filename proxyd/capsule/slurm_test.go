// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needSlurm skips a test on a machine that is no node of a Slurm with cgroup v2, and waits until the node
// takes jobs. tests/cluster runs the test on such a node.
func needSlurm(t *testing.T) {
	t.Helper()
	needRoot(t)
	conf, err := os.ReadFile("/etc/slurm/cgroup.conf")
	if err != nil || !strings.Contains(string(conf), "CgroupPlugin=cgroup/v2") {
		t.Skip("SKIP: needs a node of Slurm with CgroupPlugin=cgroup/v2: ", err)
	}
	for ctx := testDeadline(t); ; {
		out, err := exec.CommandContext(ctx, "sinfo", "-h", "-o", "%T").CombinedOutput()
		if strings.TrimSpace(string(out)) == "idle" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the node is not idle: %s %v", out, err)
		}
		time.Sleep(100 * time.Millisecond) // sinfo has no event
	}
}

// startStep runs k as a task of a step. The job belongs to root, and enter does the plugin's part.
func (k task) startStep(t *testing.T, options ...string) *running {
	t.Helper()
	cmd := k.taskCommand(t)
	ns := fmt.Sprintf("/proc/%d/ns/", k.c.PID())
	open := ""
	for i, kind := range namespaces {
		open += fmt.Sprintf(" %d<%s%s", 3+i, ns, kind)
	}
	cmd.Path, _ = exec.LookPath("srun")
	cmd.Args = append(append(append([]string{"srun", "-n1", "-J", "capsule"}, options...), "/bin/bash", "-c", "exec"+open+`; exec "$@"`, "bash"), cmd.Args...)
	cmd.ExtraFiles = nil
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin"}
	return startCommand(t, cmd)
}

// stepGroups returns the cgroups of Slurm's jobs.
func stepGroups(t *testing.T) (found []string) {
	t.Helper()
	root := cgroupRoot(t)
	filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (strings.HasPrefix(e.Name(), "step_") || strings.HasPrefix(e.Name(), "sing-")) {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return nil
	})
	return found
}

// cleanedUp waits until Slurm has no cgroup of a job, and fails if a cgroup stays.
func cleanedUp(t *testing.T) {
	t.Helper()
	for ctx := testDeadline(t); ; {
		left := stepGroups(t)
		if len(left) == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("Slurm could not remove %v", left)
			return
		}
		time.Sleep(50 * time.Millisecond) // removal has no event
	}
}

// TestSlurmCgroup: Slurm's cgroups work as usual with a capsule's cgroups in them: limits, accounting and cleaning up.
func TestSlurmCgroup(t *testing.T) {
	needSlurm(t)
	c := newCapsule(t)
	// eats is a program that allocates some megabytes, prints a line, and waits for a line.
	eats := func(mb int) []string {
		return []string{"perl", "-e", fmt.Sprintf(`$| = 1; my $x = "x" x (%d << 20); print "ate\n"; <STDIN>; exit 3`, mb)}
	}
	t.Run("an ordinary end", func(t *testing.T) {
		r := task{c: c, argv: shellCommand(`sed -n s/^0:://p /proc/self/cgroup; (setsid sleep 1001 &); read -r line; exit 3`)}.startStep(t, "--mem=200M")
		path, _ := r.out.nextLine()
		p := programNamed(t, c, "batch")
		if p.Cgroup != cgroupRoot(t)+path || !strings.Contains(path, "/user/task_0/sing-") {
			t.Errorf("cgroup of the program = %s, by /proc %s", p.Cgroup, path)
		}
		r.in.Close()
		if status := r.waitForEnd(); status != 3<<8 {
			t.Errorf("status of the step = %#x, want exit code 3", int(status))
		}
		cleanedUp(t)
	})
	t.Run("a limit", func(t *testing.T) {
		r := task{c: c, argv: eats(400), err: devNull(t)}.startStep(t, "--mem=200M")
		if got, _ := r.out.nextLine(); got != "" {
			t.Errorf("got %q, beyond its limit", got)
		}
		if status := r.waitForEnd(); status == 0 || status == 3<<8 {
			t.Errorf("status of the step over its limit = %#x, want that it was killed", int(status))
		}
		cleanedUp(t)
	})
	t.Run("within the limit, and accounted for", func(t *testing.T) {
		r := task{c: c, argv: eats(120)}.startStep(t, "--mem=200M")
		r.out.expectLine("ate")
		id, err := exec.Command("squeue", "-h", "-o", "%A").Output()
		if err != nil {
			t.Fatal(err)
		}
		rss := ""
		for ctx := testDeadline(t); ctx.Err() == nil && len(rss) < len("120000"); time.Sleep(200 * time.Millisecond) { // Slurm samples this value
			out, err := exec.Command("sstat", "-n", "-P", "-j", strings.TrimSpace(string(id))+".0", "--noconvert", "-o", "MaxRSS").CombinedOutput()
			if rss = strings.TrimSpace(string(out)); err != nil {
				t.Fatalf("sstat failed: %v, output %s", err, out)
			}
		}
		var bytes int64
		if fmt.Sscan(rss, &bytes); bytes < 120<<20 || bytes > 200<<20 {
			t.Errorf("MaxRSS = %q, want that of the program", rss)
		}
		r.in.Close()
		if status := r.waitForEnd(); status != 3<<8 {
			t.Errorf("status of the step = %#x, want exit code 3", int(status))
		}
		cleanedUp(t)
	})
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("Slurm's SIGKILL, frozen %v", frozen), func(t *testing.T) {
			r := task{c: c, err: devNull(t), argv: shellCommand(`trap "" TERM INT; (setsid sleep 1001 &); echo ready; while :; do sleep 1002; done`)}.startStep(t)
			r.out.expectLine("ready")
			if frozen {
				if err := c.Freeze(testDeadline(t)); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("scancel", "-n", "capsule").CombinedOutput(); err != nil {
				t.Fatalf("scancel failed: %v, output %s", err, out)
			}
			r.waitForEnd()
			cleanedUp(t)
			becomesEmpty(t, c)
		})
	}
	t.Run("captured, and the warden is ended", func(t *testing.T) {
		r := task{c: c, err: devNull(t), argv: shellCommand(family)}.startStep(t)
		r.out.expectLine("ready")
		e := watchEvents(t, c)
		e.waitForProgram("batch")
		if err := c.MarkCaptured(testDeadline(t), "batch"); err != nil {
			t.Fatal(err)
		}
		if err := c.Signal(testDeadline(t), "batch", syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e.nextEvent(Captured)
		if err := c.Release(testDeadline(t), "batch", 0); err != nil {
			t.Fatal(err)
		}
		if status := r.waitForEnd(); status != 0 {
			t.Errorf("status of the step = %#x, want 0", int(status))
		}
		cleanedUp(t)
	})
	t.Run("the capsule is killed", func(t *testing.T) {
		r := task{c: c, err: devNull(t), argv: shellCommand(family)}.startStep(t)
		r.out.expectLine("ready")
		if err := c.Kill(testDeadline(t)); err != nil {
			t.Fatal(err)
		}
		r.waitForEnd()
		cleanedUp(t)
	})
}
