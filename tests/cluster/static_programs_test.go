//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// staticSteps is how many steps testdata/static_program takes; its job dies in the middle.
const staticSteps = 160

// TestStaticPrograms: files of a program that does not go through libc are the same as in an undisturbed run, although
// its node died after a checkpoint.
func TestStaticPrograms(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "static")
	build := exec.Command("go", "build", "-o", program, "./testdata/static_program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of the static program failed: %v: %s", err, out)
	}
	undisturbed := filepath.Join(t.TempDir(), "files")
	createFile := func(path string) {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	createFile(undisturbed + ".captured")
	createFile(undisturbed + ".goes-on")
	said, err := exec.Command(program, undisturbed, strconv.Itoa(staticSteps), "0").Output()
	if err != nil {
		t.Fatalf("the undisturbed run failed: %v: %s", err, said)
	}
	want := readFolder(t, undisturbed)

	c := raiseProtected(t, "t-static", "--nodes", "2")
	home := filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice")
	if err := exec.Command("cp", program, home).Run(); err != nil {
		t.Fatal(err)
	}
	start := func(node, dir string) string {
		return c.submitJob(t, "--singularity -w "+node, fmt.Sprintf("./static $PWD/%s %d 100ms; echo rc $?", dir, staticSteps))
	}

	// While proxyd was away, no changes of files were recorded, and the next checkpoint says so.
	left := start("n2", "left")
	c.waitForLine(t, left, "10")
	c.runOn(t, "n2", "", "pkill", "-KILL", "-x", "proxyd").mustSucceed(t)
	runMinicluster(t, "restart", "--name", c.name, "n2", "proxyd").mustSucceed(t)
	job := start("n1", "files")
	c.runOn(t, "n2", "alice", "singctl", "checkpoint", left).mustSucceed(t)
	if log := c.proxydLog("n2"); !strings.Contains(log, "not complete") {
		t.Errorf("nothing is said to be missing:\n%s", log)
	}
	c.runAsRoot(t, "scancel "+left)

	c.waitForLine(t, job, "31")
	c.runOn(t, "n1", "alice", "singctl", "checkpoint", job).mustSucceed(t)
	createFile(filepath.Join(home, "files.captured"))
	c.waitForLine(t, job, "70")
	waitFor(t, time.Minute, func() (bool, string) { // until the last change of step 70 that makes a difference is known
		known, err := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "shared/singularity/jobs", job+".0.files"))
		return bytes.Contains(known, []byte("/dir.70/in")), fmt.Sprintf("dir.70/in of step 70 is not in the list of changed files (%v)", err)
	})
	runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
	createFile(filepath.Join(home, "files.goes-on"))
	c.runAsRoot(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
	c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
	c.restartJob(t, job, "")
	c.waitForEnd(t, job)

	if d := compareFolders(want, readFolder(t, filepath.Join(home, "files"))); d != "" {
		t.Errorf("files:\n%s", d)
	}
	_, end, _ := strings.Cut(string(said), "\n100\n")
	if log := c.jobLog(job); !strings.HasSuffix(log, end+"rc 0") {
		t.Errorf("the job's log is not as expected:\n%s", log)
	}
	for line := range strings.Lines(c.proxydLog("n1") + c.proxydLog("n2")) {
		for _, bad := range []string{"not complete", "not put back", "not recorded"} {
			if strings.Contains(line, "job="+job+" ") && strings.Contains(line, bad) {
				t.Errorf("proxyd logged an incomplete record or restore of files: %v", line)
			}
		}
	}
}

// proxydLog returns the log of a node's proxyd.
func (c protected) proxydLog(node string) string {
	b, _ := os.ReadFile(filepath.Join("/var/lib/minicluster", c.name, "logs", node, "proxyd.log"))
	return string(b)
}

// readFolder returns the content of a folder's files, by path.
func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = "folder"
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// compareFolders describes the differences of two folders.
func compareFolders(want, got map[string]string) string {
	var b strings.Builder
	for name, text := range want {
		if g, ok := got[name]; !ok {
			fmt.Fprintf(&b, "%s is missing\n", name)
		} else if g != text {
			fmt.Fprintf(&b, "%s is …%q, not …%q\n", name, g[max(0, len(g)-60):], text[max(0, len(text)-60):])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "%s is there\n", name)
		}
	}
	return b.String()
}
