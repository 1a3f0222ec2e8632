// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/program"
)

// fakeKit is a kit with a program in the place of the suite.
func fakeKit(t *testing.T, suite string) *kit {
	t.Helper()
	home, out := t.TempDir(), t.TempDir()
	for _, folder := range []string{filepath.Join(home, "tests"), filepath.Join(out, "logs")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "tests", "backend.test"), []byte("#!/bin/sh\n"+suite), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := newReport(out, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	return &kit{options: options{out: out}, home: home, report: r, missed: map[string][]string{}, gpus: 1}
}

// outcomes returns the outcomes of the rows, by the rows' names.
func (k *kit) outcomes() map[string]outcome {
	all := map[string]outcome{}
	for _, r := range k.report.Rows {
		all[r.Name] = r.Outcome
	}
	return all
}

// TestSuiteCrashes: a case that ends the whole process is named, and the cases behind run.
func TestSuiteCrashes(t *testing.T) {
	k := fakeKit(t, `
case "$*" in
*test.skip*crash*) echo "=== RUN   TestDevice/last
    x.go:1: no
    --- FAIL: TestDevice/last (0.10s)" ;;
*) echo "=== RUN   TestDevice/first
=== RUN   TestDevice/a_crash
    --- PASS: TestDevice/first (0.00s)"; echo SIGSEGV >&2; exit 2 ;;
esac`)
	runSuite(t.Context(), k)
	got := k.outcomes()
	if got["a crash"] != wrong || got["last"] != wrong || got["suite of backends"] != right || len(got) != 3 {
		t.Errorf("outcomes of the suite = %v, which are not expected; rows %+v", got, k.report.Rows)
	}
}

// TestSuiteFaults: each case with a fault has a process of its own, behind all other cases.
func TestSuiteFaults(t *testing.T) {
	k := fakeKit(t, `
says() { echo "=== RUN   TestDevice/$1
    --- $2: TestDevice/$1 (0.00s)"; }
case "$*" in
*-first*-test.run*a_fault_*)
	case "$*" in
	*-test.skip*a_fault_one*a_fault_two*) ;;
	*-test.skip*a_fault_one*) says a_fault_two FAIL; exit 1 ;;
	*) says a_fault_one PASS ;;
	esac ;;
*test.skip*a_fault_*) says first PASS; says last PASS ;;
*) exit 2 ;;
esac`)
	runSuite(t.Context(), k)
	got := k.outcomes()
	if got["a fault two"] != wrong || got["suite of backends"] != right || len(got) != 2 {
		t.Errorf("outcomes of the suite = %v, which are not expected; rows %+v", got, k.report.Rows)
	}
	if last := k.report.Rows[len(k.report.Rows)-1]; !strings.HasPrefix(last.Why, "3 of 4 cases passed") {
		t.Errorf("the last row, want 3 of 4 cases passed: %v", last.Why)
	}
}

// TestTimeRanOut: a case that a run's time limit ends is blamed only if that case itself has taken long.
func TestTimeRanOut(t *testing.T) {
	const text = "panic: test timed out after 1m20s\n\trunning tests:\n\t\tTestDevice (1m20s)\n\t\tTestDevice/%s (%t)\n"
	for took, want := range map[string]bool{"5s": true, "1m2s": false} {
		said := strings.NewReplacer("%s", "a_case", "%t", took).Replace(text)
		if got := timeRanOut(said, "a_case"); got != want {
			t.Errorf("timeRanOut after %s = %v", took, got)
		}
	}
	if timeRanOut("SIGSEGV", "a_case") {
		t.Error("a crash is taken for a lack of time")
	}
}

// TestStepsAreApart: a step that panics has failed, a program that hangs is ended with all of its child processes, and later steps run.
func TestStepsAreApart(t *testing.T) {
	k := fakeKit(t, "")
	k.runStep(t.Context(), step{"panics", "", time.Minute, func(context.Context, *kit) { panic("oh") }})
	k.runStep(t.Context(), step{"hangs", "", time.Minute, func(ctx context.Context, k *kit) {
		e := k.runChild(ctx, task{name: "hang", limit: 100 * time.Millisecond}, "sh", "-c", "sleep 1000 & sleep 1000")
		k.addRow(row{Name: "hang", Outcome: wrong, Why: e.describeFailure()})
	}})
	k.runStep(t.Context(), step{"later", "", time.Minute, func(_ context.Context, k *kit) { k.addRow(row{Name: "later", Outcome: right}) }})
	got := k.outcomes()
	if got["panics"] != wrong || got["hang"] != wrong || got["later"] != right {
		t.Errorf("outcomes = %v, want a step that panics and one that hangs wrong, and the later step right", got)
	}
	if why := k.report.Rows[1].Why; !strings.Contains(why, "did not end within its time") {
		t.Errorf("the row of the step that hangs, want that it did not end within its time: %v", why)
	}
}

// TestCutShort: a program that is ended by the end of its step's time has no verdict, unless it has run much longer
// than is normal.
func TestCutShort(t *testing.T) {
	k := fakeKit(t, "")
	hang := func(limit, own time.Duration) *programResult {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return k.runChild(ctx, task{name: "hang", limit: own}, "sleep", "1000")
	}
	if e := hang(50*time.Millisecond, time.Minute); !e.wasCutShort(0) || e.err == nil {
		t.Errorf("the step's time was over, want a program that was cut short: %+v", e)
	}
	if e := hang(time.Minute, 50*time.Millisecond); e.wasCutShort(0) || e.err == nil {
		t.Errorf("the program's own time was over, want a program that was not cut short: %+v", e)
	}
	for _, tt := range []struct {
		seconds, normal float64
		want            bool
	}{{29, 1, true}, {31, 1, false}, {31, 20, true}, {200, 20, false}} {
		if got := (&programResult{over: true, seconds: tt.seconds}).wasCutShort(tt.normal); got != tt.want {
			t.Errorf("%+v: wasCutShort = %v", tt, got)
		}
	}
}

// TestLinkUnknown: a device that the kernel does not list has no speed.
func TestLinkUnknown(t *testing.T) {
	if speed, text := linkSpeed("0000ffff:ff:1f.7"); speed != 0 || text != "not known" {
		t.Errorf("linkSpeed of an unknown device = %v, %q, want 0 and not known", speed, text)
	}
}

// TestUsage: the error of a command line is printed once, in a line, and --help names options as they are typed.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args      string
		exit      int
		out, errs string
	}{
		{"--help", exitRight, "--limit TIME", ""},
		{"--limits 5m", exitUsage, "", "run: unknown flag: --limits; --help lists the steps and options\n"},
		{"--limit soon", exitUsage, "", "run: invalid argument \"soon\" for \"--limit\" flag: time: invalid duration \"soon\"; --help lists the steps and options\n"},
		{"--only nonsense", exitUsage, "", "run: --only nonsense: there is no step nonsense; --help lists the steps and options\n"},
		{"--steps 3", exitUsage, "", "run: --steps 3: it is 4 or more; --help lists the steps and options\n"},
		{"--steps", exitUsage, "", "run: flag needs an argument: --steps; --help lists the steps and options\n"},
		{"--limit 0s", exitUsage, "", "run: --limit 0s: it is more than 0; --help lists the steps and options\n"},
		{"--only ,", exitUsage, "", "run: --only \",\": it names no step; --help lists the steps and options\n"},
		{"--steps 8 --check-options", exitRuns, "", ""},
		{"--steps 3 --check-options", exitUsage, "", "run: --steps 3: it is 4 or more; --help lists the steps and options\n"},
		{"more", exitUsage, "", "run: \"more\": no arguments are taken; --help lists the steps and options\n"},
	} {
		var out, errs strings.Builder
		exit := runKit(t.Context(), strings.Fields(tt.args), &out, &errs)
		if exit != tt.exit || !strings.Contains(out.String(), tt.out) || (tt.out == "") != (out.Len() == 0) || errs.String() != tt.errs {
			t.Errorf("%s: exit status %d\n%s%s", tt.args, exit, &out, &errs)
		}
	}
}

// TestJudgeBoth: a program that fails by proxyd is wrong, unless it fails natively, too.
func TestJudgeBoth(t *testing.T) {
	for _, c := range []struct {
		ours, native string
		want         outcome
	}{
		{"", "", right},
		{"no", "", wrong}, // natively right, or not run: the node has too few GPUs
		{"", "no", differs},
		{"no", "no", differs},
	} {
		if got, why := judgeBoth(c.ours, c.native); got != c.want || (why == "") != (got == right) {
			t.Errorf("judgeBoth(%q, natively %q) = %s, %q", c.ours, c.native, got, why)
		}
	}
}

// TestSuiteSkips: the reason why the last case of a run is left out is said without the lines that follow.
func TestSuiteSkips(t *testing.T) {
	k := fakeKit(t, `echo "=== RUN   TestDevice/last
    x.go:1: two devices
--- PASS: TestDevice (0.10s)
    --- SKIP: TestDevice/last (0.00s)
PASS"`)
	runSuite(t.Context(), k)
	rows := k.report.Rows
	if got := rows[len(rows)-1].Values["last"]; got != "left out: x.go:1: two devices" {
		t.Errorf("last = %q, want why that case is left out; rows %+v", got, rows)
	}
}

// fakePython makes the kit's Python a shell script.
func (k *kit) fakePython(t *testing.T, script string) {
	t.Helper()
	k.python = filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(k.python, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestFrameworks: each framework has a row, and is used if Python has it; one that is missing hides no other.
func TestFrameworks(t *testing.T) {
	k := fakeKit(t, "")
	k.fakePython(t, `echo 'a line of a library'
echo 'facts PyTorch {"python": "3", "version": "2.6", "triton": "none", "libs": ["/nccl"], "why": ""}'
echo 'facts transformers {"why": "no module"}'`)
	k.describeFrameworks(t.Context())
	got := k.outcomes()
	if got["PyTorch"] != right || got["transformers"] != cannot || got["JAX"] != cannot || len(got) != 3 {
		t.Errorf("outcomes of the frameworks = %v, want PyTorch alone to be right; rows %+v", got, k.report.Rows)
	}
	if !strings.Contains(k.absent[transformers], "no module") || len(k.libs) != 1 {
		t.Errorf("transformers cannot run: %q; libraries %q", k.absent[transformers], k.libs)
	}
	compile := training{program: "compile", needs: torch}
	if why := k.whyCannotTrain(t.Context(), &compile); !strings.Contains(why, "Triton") {
		t.Errorf("whyCannotTrain(torch.compile) = %q, want that there is no Triton", why)
	}
	ranks := training{needs: torch, gpus: 2}
	if why := k.whyCannotTrain(t.Context(), &ranks); !strings.Contains(why, "2 GPUs") {
		t.Errorf("whyCannotTrain(two ranks) = %q, want that there is one GPU", why)
	}
}

// TestDeviceFlags: ranks have GPUs of their own as far as there are some, or share one.
func TestDeviceFlags(t *testing.T) {
	two, soft := &kit{gpus: 2}, &kit{options: options{soft: true}}
	for _, c := range []struct {
		k    *kit
		p    task
		want string
	}{
		{two, task{}, "--order 0"},
		{two, task{devices: 4}, "--order 0,1,0,1"},
		{two, task{devices: 2, shared: true}, "--order 0,0"},
		{&kit{}, task{devices: 2}, "--order 0,0"},
		{soft, task{devices: 2}, "--soft 2 --on 1"},
		{soft, task{devices: 2, apart: true}, "--soft 2"},
	} {
		if got := strings.Join(c.k.deviceFlags(&c.p), " "); got != c.want {
			t.Errorf("deviceFlags(%+v) = %q, want %q", c.p, got, c.want)
		}
	}
}

// TestCannotCall: programs for software GPUs are left out where the backend is that of real GPUs.
func TestCannotCall(t *testing.T) {
	says := &program.Program{Software: "no arrays"}
	if why := (&kit{}).whyCannotCall("name", says); !strings.Contains(why, "no arrays") {
		t.Errorf("whyCannotCall on a real GPU = %q, want that it is for software GPUs", why)
	}
	if why := (&kit{options: options{soft: true}}).whyCannotCall("name", says); why != "" {
		t.Errorf("whyCannotCall on a software GPU = %q, want nothing", why)
	}
}
