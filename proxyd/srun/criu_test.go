// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// inCapsule makes a capsule in which srun is sing-srun. s runs the real srun with the capsule's mounts.
func inCapsule(t testing.TB, s *server, change ...func(*capsule.Spec)) *capsule.Capsule {
	t.Helper()
	spec := capsule.Spec{
		Dir: filepath.Join(t.TempDir(), "capsule"), Hostname: "cap1", Owner: user,
		Binds: []capsule.Bind{{Source: filepath.Join(tools.dir, "sing-srun"), Target: "/usr/bin/srun", ReadOnly: true}},
	}
	for _, f := range change {
		f(&spec)
	}
	c, err := capsule.Make(testDeadline(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := c.Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range ns {
			f.Close()
		}
		c.Close()
		if err := capsule.Discard(testDeadline(t), spec.Dir); err != nil {
			t.Error(err)
		}
	})
	s.mu.Lock()
	s.mounts = ns[0]
	s.mu.Unlock()
	return c
}

// enterCapsule returns a command in c's namespaces.
func enterCapsule(c *capsule.Capsule, args ...string) *exec.Cmd {
	ns := fmt.Sprintf("/proc/%d/ns/", c.PID())
	return exec.Command("nsenter", append([]string{"--mount=" + ns + "mnt", "--net=" + ns + "net", "--uts=" + ns + "uts",
		"--ipc=" + ns + "ipc", "--pid=" + ns + "pid", "--time=" + ns + "time_for_children"}, args...)...)
}

// TestMounts: srun sees the capsule's files, and is not sing-srun there.
func TestMounts(t *testing.T) {
	j := newJob(t, "-N1", "-n1", "-w", "n1")
	s := newServer(t, "")
	c := inCapsule(t, s)
	cmd := enterCapsule(c, "setpriv", "--reuid", fmt.Sprint(user), "--regid", fmt.Sprint(group), "--clear-groups", "/bin/bash", "-euc", `
		mkdir /tmp/mine; cd /tmp/mine; echo from the capsule >in
		srun -n1 -D / -i in -o out cat 
		cat out; ls /tmp`)
	cmd.Env = j.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	how := waitForCommand(t, cmd)
	if out.String() != "from the capsule\nmine\n" || errs.String() != "" || exitCodeOf(how) != 0 {
		t.Errorf("stdout %q, stderr %q, exit code %d, want the files of the capsule", out.String(), errs.String(), exitCodeOf(how))
	}
	s.expectRequest("srun")
}

// TestCRIU captures a script that waits for srun, and restores the script: sing-srun asks again and the script goes on.
func TestCRIU(t *testing.T) {
	j := newJob(t, "-N2", "--ntasks-per-node=1")
	version, err := exec.Command("criu", "--version").Output()
	var major, minor int
	if err == nil {
		_, err = fmt.Sscanf(string(version), "Version: %d.%d", &major, &minor)
	}
	if err != nil || major*100+minor < 402 {
		t.Skipf("SKIP: needs criu 4.2, found %q", version)
	}
	if out, err := exec.Command("criu", "check").CombinedOutput(); err != nil { // leaves its findings in /run/criu.kdat
		t.Fatalf("criu check: %s", out)
	}
	ctx := testDeadline(t)
	s := newServer(t, "")
	one := inCapsule(t, s)
	dir, err := os.MkdirTemp("/shared", "srun-criu-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	images := filepath.Join(tools.dir, "images") // not in /tmp, which is the capsule's own
	if err := os.Mkdir(images, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"s1", "s2"} {
		if err := unix.Mkfifo(dir+"/fifo."+key, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir+"/fifo."+key, 0o666)
	}
	// The script has two steps at once, one of them in a pipeline, and one after them.
	script := `exec </dev/null >>` + dir + `/log 2>&1
		srun -N1 -n1 -w n1 --overlap sh -c ': >` + dir + `/$SINGULARITY_SLURM_STEP; read x <` + dir + `/fifo.$SINGULARITY_SLURM_STEP; echo $x; exit 3' | tr a-z A-Z &
		srun -N1 -n1 -w n2 --overlap sh -c ': >` + dir + `/$SINGULARITY_SLURM_STEP; read x <` + dir + `/fifo.$SINGULARITY_SLURM_STEP; echo $x; exit 4'
		echo "fore $?"; wait $!; echo "back $?"
		srun -N1 -n1 echo last
		echo "end $?"; : >` + dir + `/end`
	start := enterCapsule(one, "setpriv", "--reuid", fmt.Sprint(user), "--regid", fmt.Sprint(group), "--clear-groups",
		"/bin/bash", "-c", `set -o pipefail; (setsid bash -o pipefail -c "$1" </dev/null >/dev/null 2>&1 & echo $!)`, "-", script)
	start.Env, start.Stderr = j.env, os.Stderr
	out, err := start.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(out))
	a, b := s.expectRequest("srun").run, s.expectRequest("srun").run
	both := func(what string) {
		t.Helper()
		waitFor(t, 60*time.Second, what, func() bool {
			_, errA := os.Stat(dir + "/" + a.Key())
			_, errB := os.Stat(dir + "/" + b.Key())
			return errA == nil && errB == nil
		})
	}
	both("both steps run")
	for _, r := range []*Runner{a, b} {
		if err := r.Quiet(ctx); err != nil {
			t.Fatal(err)
		}
	}
	last, err := one.LastPID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clocks, err := one.Clocks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	criu := func(c *capsule.Capsule, args ...string) {
		t.Helper()
		if out, err := enterCapsule(c, args...).CombinedOutput(); err != nil {
			log, _ := exec.Command("sh", "-c", "grep -h Error "+images+"/*.log").Output()
			t.Fatalf("criu command %q: %v\n%s%s", args, err, out, log)
		}
	}
	criu(one, "setpriv", "--ruid", fmt.Sprint(user), "--rgid", fmt.Sprint(group), "--keep-groups",
		"criu", "dump", "-t", pid, "-D", images, "-o", "dump.log", "--network-lock", "skip")
	for _, r := range []*Runner{a, b} {
		if err := r.Signal(ctx, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		os.Remove(dir + "/" + r.Key())
	}
	if err := one.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if log, _ := os.ReadFile(dir + "/log"); strings.Contains(string(log), "fore") || strings.Contains(string(log), "back") {
		t.Errorf("the captured script went on: %q", log)
	}
	if err := os.Truncate(dir+"/log", 0); err != nil { // messages of srun about its end
		t.Fatal(err)
	}

	two := inCapsule(t, s, func(spec *capsule.Spec) { spec.Restore, spec.Clocks = true, &clocks })
	criu(two, "criu", "restore", "-d", "-D", images, "-o", "restore.log")
	if err := two.LoadLastPID(ctx, last); err != nil {
		t.Fatal(err)
	}
	again := map[string]*Runner{}
	for range 2 {
		r := s.expectRequest("srun")
		if r.keys["key"] != r.run.Key() {
			t.Errorf("asked again with %v", r.keys)
		}
		again[r.run.Key()] = r.run
	}
	if again[a.Key()] == nil || again[b.Key()] == nil {
		t.Fatalf("asked again for %v, not for %s and %s", again, a.Key(), b.Key())
	}
	both("both steps run again")
	for _, r := range []*Runner{a, b} {
		// Opened for reading and writing: the open does not wait for a reader that has died.
		f, err := os.OpenFile(dir+"/fifo."+r.Key(), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintln(f, "word")
	}
	if r := s.expectRequest("srun"); r.run.Key() != "s3" {
		t.Errorf("the next step's key is %q", r.run.Key())
	}
	waitFor(t, 60*time.Second, "the script ends", func() bool {
		_, err := os.Stat(dir + "/end")
		return err == nil
	})
	log, _ := os.ReadFile(dir + "/log")
	var lines []string
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "srun: ") { // the message that a task's code was not 0
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if got := sortLines(strings.Join(lines, "\n")); got != sortLines("word\nWORD\nfore 4\nback 3\nlast\nend 0") {
		t.Errorf("after the restore the log is %q", log)
	}
}
