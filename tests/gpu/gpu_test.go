// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// root is the root of the source tree.
const root = "../.."

var packed = flag.String("archive", "", "test this archive, and pack none")

// archive packs the kit, for the first test, and returns the path.
var archive = sync.OnceValues(func() (string, error) {
	if *packed != "" {
		return *packed, nil
	}
	out, err := exec.Command("make", "-s", "-C", root, "gpu-kit").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return filepath.Abs(root + "/bin/gpu-kit.tar.gz")
})

// unpackKit unpacks the archive into an empty folder, and returns the kit's folder in it.
func unpackKit(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("packing takes minutes")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("there is no C compiler: ", err)
	}
	path, err := archive()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if out, err := exec.Command("tar", "-C", folder, "-xzf", path).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return filepath.Join(folder, "gpu-kit")
}

// makeCoreutils returns a folder with a shell and some of coreutils, as on a bare node.
func makeCoreutils(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"sh", "dirname", "mkdir", "cat", "ls", "rm"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// result has the fields of result.json that the tests read.
type result struct {
	Done bool
	Rows []struct {
		Step, Name, Outcome, Why string
		Native, Ours             float64
		Values                   map[string]string
	}
}

// runKit runs the unpacked kit with a PATH of coreutils, and returns its result and exit status.
func runKit(t *testing.T, folder string, args ...string) (*result, int, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	c := exec.CommandContext(t.Context(), filepath.Join(folder, "run"), append([]string{"--out", out}, args...)...)
	c.Env = []string{"PATH=" + makeCoreutils(t), "HOME=/nonexistent", "TMPDIR=" + t.TempDir()}
	c.Dir = t.TempDir()
	var errs bytes.Buffer
	c.Stderr = &errs
	printed, err := c.Output()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatalf("the kit wrote no result.json: %v\n%s\n%s", err, printed, &errs)
	}
	r := &result{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	if !r.Done {
		t.Error("the kit did not come to its end")
	}
	table, err := os.ReadFile(filepath.Join(out, "table.txt"))
	if err != nil || string(table) != string(printed) {
		t.Errorf("%v: the table is\n%s, and it printed\n%s", err, table, printed)
	}
	return r, c.ProcessState.ExitCode(), string(printed)
}

// TestWithoutGPU: on a node without a GPU, each step says why the step cannot run, and so does the exit status.
func TestWithoutGPU(t *testing.T) {
	if found, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(found) > 0 {
		t.Skip("there is a GPU")
	}
	r, exit, printed := runKit(t, unpackKit(t))
	if exit != 77 {
		t.Errorf("exit status %d, want 77\n%s", exit, printed)
	}
	said := map[string]bool{}
	for _, row := range r.Rows {
		switch {
		case row.Outcome == "cannot" && strings.Contains(row.Why, "/dev/nvidia0"):
			said[row.Step] = true
		case row.Outcome == "WRONG":
			t.Errorf("row %+v is wrong, want no such row", row)
		case row.Outcome == "right" && row.Step != "node":
			t.Errorf("without a GPU it is right: %+v", row)
		}
	}
	for _, step := range []string{"node", "suite", "workloads", "pytorch", "nvcc", "replace", "calls", "costs", "probe"} {
		if !said[step] {
			t.Errorf("step %s does not say that there is no GPU\n%s", step, printed)
		}
	}
}

// TestProbeHelp: the probe prints its help on a machine without a driver, too.
func TestProbeHelp(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("there is no C compiler: ", err)
	}
	folder := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "probe", "O="+folder).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	program, err := elf.Open(filepath.Join(folder, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	needed, err := program.ImportedLibraries()
	if err != nil || slices.ContainsFunc(needed, func(name string) bool { return strings.HasPrefix(name, "libcuda") }) {
		t.Errorf("the test program needs the driver's library at its start: %v, %v", needed, err)
	}
	out, err := exec.Command(filepath.Join(folder, "probe"), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "E10") {
		t.Errorf("probe --help, want the questions up to E10: %v\n%s", err, out)
	}
	out, err = exec.Command(filepath.Join(folder, "probe"), "--limit").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "--limit is no question") {
		t.Errorf("probe --limit, want exit status 2 and that --limit is no question: %v\n%s", err, out)
	}
}

// TestRehearsal: over software GPUs, all rows that need no driver are right: workloads, device servers that are
// replaced, the probe.
func TestRehearsal(t *testing.T) {
	r, exit, printed := runKit(t, unpackKit(t), "--soft", "--steps", "12", "--only", "workloads,replace,costs,missed", "--python", "/nonexistent")
	if exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, printed)
	}
	rows := map[string]bool{}
	for _, row := range r.Rows {
		rows[row.Step+" "+row.Name] = row.Outcome == "right"
	}
	for _, want := range []string{
		"workloads mlp", "workloads gpt", "workloads streams", "workloads serve", "workloads mlp of 2 ranks", "workloads grid",
		"replace mlp, its device server replaced", "replace streams, its device server replaced", "costs copy pinned to device",
	} {
		if !rows[want] {
			t.Errorf("no row %q that is right\n%s", want, printed)
		}
	}
}

// TestNested: with our own shim in the driver's place, over software GPUs of another device server, the suite, workloads, programs of
// calls and device servers that are replaced are right by the backend of real GPUs.
func TestNested(t *testing.T) {
	r, exit, printed := runKit(t, unpackKit(t), "--nested", "--steps", "8", "--only", "suite,workloads,replace,calls,missed", "--python", "/nonexistent")
	if exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, printed)
	}
	rows := map[string]bool{}
	for _, row := range r.Rows {
		rows[row.Step+" "+row.Name] = row.Outcome == "right"
	}
	for _, want := range []string{
		"suite suite of backends", "workloads mlp", "workloads gpt", "workloads streams", "workloads serve", "workloads mlp of 4 ranks",
		"workloads mlp of 2 ranks, a GPU for each", "workloads grid", "calls programs of calls",
		"replace gpt, its device server replaced",
	} {
		if !rows[want] {
			t.Errorf("no row %q that is right\n%s", want, printed)
		}
	}
}

// TestSuite: the packed suite of backends runs over the driver that --driver names, and passes.
func TestSuite(t *testing.T) {
	kit, folder := unpackKit(t), t.TempDir()
	l, err := fakecuda.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.Path, filepath.Join(folder, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	r, exit, printed := runKit(t, kit, "--driver", folder, "--only", "suite")
	last := r.Rows[len(r.Rows)-1]
	if exit != 0 || last.Name != "suite of backends" || last.Outcome != "right" {
		t.Errorf("exit status %d\n%s", exit, printed)
	}
}

// TestWrong: a program with another output by proxyd than natively is reported, and the later steps run.
func TestWrong(t *testing.T) {
	folder := unpackKit(t)
	// Prints a number of its own each time.
	liar := "#!/bin/sh\necho $$\n"
	if err := os.Remove(filepath.Join(folder, "workloads", "mlp")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "workloads", "mlp"), []byte(liar), 0o755); err != nil {
		t.Fatal(err)
	}
	r, exit, printed := runKit(t, folder, "--soft", "--steps", "4", "--only", "workloads,missed")
	if exit != 1 {
		t.Errorf("exit status %d, want 1\n%s", exit, printed)
	}
	for _, row := range r.Rows {
		if row.Name == "mlp" && (row.Outcome != "WRONG" || !strings.Contains(row.Why, "prints something else")) {
			t.Errorf("row %+v, want WRONG, because it prints something else", row)
		}
		if row.Name == "gpt" && row.Outcome != "right" {
			t.Errorf("row %+v, want right", row)
		}
	}
}

// TestWrongUse: a wrong command line is answered with the error, and no step is run.
func TestWrongUse(t *testing.T) {
	folder := unpackKit(t)
	for _, args := range [][]string{{"--only", "nothing"}, {"--steps", "1"}, {"more"}, {"--unknown"}, {"--nested", "--soft"}} {
		c := exec.Command(filepath.Join(folder, "run"), args...)
		c.Dir = t.TempDir()
		out, _ := c.CombinedOutput() // the exit status tells
		if code := c.ProcessState.ExitCode(); code != 2 || len(out) == 0 {
			t.Errorf("%q: exit status %d, want 2\n%s", args, code, out)
		}
		if made, err := os.ReadDir(c.Dir); err != nil || len(made) > 0 {
			t.Errorf("%q: the kit has made files %v, want none; %v", args, made, err)
		}
	}
}

// TestRunInTree: in the tree, --help and a wrong command line are answered before anything is packed, which takes minutes.
func TestRunInTree(t *testing.T) {
	const stopped = 9 // the exit status of make here
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "make"), []byte(fmt.Sprintf("#!/bin/sh\nexit %d\n", stopped)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args      []string
		exit      int
		out, errs string
	}{
		{[]string{"--help"}, 0, "usage: run [OPTIONS]", ""},
		{[]string{"--steps", "3"}, 2, "", "run: --steps 3: it is 4 or more"},
		{[]string{"--only"}, 2, "", "run: flag needs an argument: --only"},
		{[]string{"--step", "8"}, 2, "", "run: unknown flag: --step"},
		{[]string{"--steps", "8"}, stopped, "", ""},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			c := exec.CommandContext(t.Context(), "./run", tc.args...)
			c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); c.ProcessState == nil {
				t.Fatal(err)
			}
			if exit := c.ProcessState.ExitCode(); exit != tc.exit || !strings.HasPrefix(out.String(), tc.out) || !strings.HasPrefix(errs.String(), tc.errs) {
				t.Errorf("exit status %d, want %d\n%s%s", exit, tc.exit, &out, &errs)
			}
		})
	}
}
