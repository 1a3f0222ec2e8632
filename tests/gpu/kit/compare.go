// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/program"
)

// requests are the input of the program that serves requests.
const requests = "first\nsecond\nthird\nquit\n"

// workloadTask runs a program of tests/workloads.
func (k *kit) workloadTask(name string, args ...string) task {
	return task{name: name, path: k.filePath("workloads", name), args: args, limit: time.Minute}
}

// compareWorkloads runs the programs of tests/workloads.
func compareWorkloads(ctx context.Context, k *kit) {
	n := fmt.Sprint(k.steps)
	if k.needGPU("training programs") {
		for _, p := range []task{
			k.workloadTask("mlp", "--steps", n), k.workloadTask("gpt", "--steps", n), k.workloadTask("streams", "--steps", n), k.workloadTask("solver", "--steps", "1"),
		} {
			if k.isChosen(p.name) {
				k.compareRuns(ctx, p, k.runNatively(ctx, p))
			}
		}
		serve := k.workloadTask("serve")
		serve.stdin = requests
		if k.isChosen(serve.name) {
			k.compareRuns(ctx, serve, k.runNatively(ctx, serve))
		}
		// Ranks that share the node's GPUs; two ranks share a GPU. The software GPU gives the right output, because NCCL wants a GPU
		// for each rank.
		for _, ranks := range []int{2, 4} {
			p := k.workloadTask("mlp", "--steps", "6", "--ranks", fmt.Sprint(ranks))
			p.name, p.devices, p.shared = fmt.Sprintf("mlp of %d ranks", ranks), ranks, ranks == 2
			if k.isChosen(p.name) {
				k.compareRuns(ctx, p, k.runReference(ctx, p))
			}
		}
		k.compareRanksApart(ctx)
		grid := k.workloadTask("grid", "--steps", "4", "--ranks", "4")
		grid.devices = 4
		if k.isChosen(grid.name) {
			k.compareRuns(ctx, grid, k.runReference(ctx, grid))
		}
	}
}

// compareRanksApart runs two ranks with a GPU for each: by NCCL on both sides.
func (k *kit) compareRanksApart(ctx context.Context) {
	p := k.workloadTask("mlp", "--steps", "6", "--ranks", "2")
	p.name, p.devices, p.apart = "mlp of 2 ranks, a GPU for each", 2, true
	switch {
	case !k.isChosen(p.name):
	case k.gpus < p.devices && !k.soft:
		k.addRow(row{Name: p.name, Outcome: cannot, Why: fmt.Sprintf("it needs 2 GPUs, and there is %d", k.gpus)})
	default:
		k.compareRuns(ctx, p, k.runNatively(ctx, p))
	}
}

// compareRuns runs a program over a device server, and compares its output with that of the native run.
func (k *kit) compareRuns(ctx context.Context, p task, native *programResult) row {
	w := row{Name: p.name, Outcome: right, Native: native.seconds, Unit: "s"}
	if native.wasCutShort(0) {
		return k.addUnlessQuiet(p, row{Name: p.name, Outcome: cannot, Why: timeOver})
	}
	if native.err != nil || native.exit != 0 {
		w.Outcome, w.Why = wrong, "undisturbed it fails, so there is nothing to compare with: "+native.describeFailure()
	}
	ours := k.runProxied(ctx, p)
	w.Ours = ours.seconds
	switch {
	case ours.wasCutShort(native.seconds) && w.Outcome == right:
		w.Outcome, w.Why, w.Ours = cannot, timeOver, 0
	case ours.err != nil || ours.exit != 0:
		w.Outcome, w.Why = wrong, w.Why+"by proxyd it fails: "+ours.describeFailure()
	case w.Outcome == right && ours.stdout != native.stdout:
		w.Outcome, w.Why = wrong, "by proxyd it prints something else: "+firstDifference(ours.stdout, native.stdout)
	case w.Outcome == right && native.stdout == "":
		w.Outcome, w.Why = wrong, "it prints nothing"
	}
	return k.addUnlessQuiet(p, w)
}

func (k *kit) addUnlessQuiet(p task, w row) row {
	if !p.quiet {
		k.addRow(w)
	}
	return w
}

// firstDifference is the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("line %d is missing: %s", i+1, b[i])
		case i >= len(b):
			return fmt.Sprintf("line %d is too many: %s", i+1, a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("line %d is\n%s, not\n%s", i+1, a[i], b[i])
		}
	}
	return "nothing"
}

// compareCalls runs the programs of tests/device. Such a program expects the behaviour that we think the driver has: a
// native run shows whether the driver has it.
func compareCalls(ctx context.Context, k *kit) {
	if !k.needGPU("programs of calls") {
		return
	}
	sources, _ := filepath.Glob(k.filePath("calls", "*.c")) // the pattern is right
	sources = slices.DeleteFunc(sources, func(s string) bool { return !k.isChosen(filepath.Base(s)) })
	switch {
	case len(sources) > 0:
	case k.match != "":
		return // the kit says so if there is no row at all
	default:
		k.addRow(row{Name: "programs of calls", Outcome: wrong, Why: "the archive has none"})
		return
	}
	passed := 0
	for _, source := range sources {
		if ctx.Err() != nil {
			k.addRow(row{Name: "programs of calls", Outcome: cannot, Why: fmt.Sprintf("its time is over: %s and what follows was not run", filepath.Base(source))})
			break
		}
		if k.compareCallsOf(ctx, source) {
			passed++
		}
	}
	k.addRow(row{Name: "programs of calls", Outcome: right, Why: fmt.Sprintf("%d of %d print by proxyd what they should", passed, len(sources))})
}

// compareCallsOf runs a program natively and by proxyd, and adds a row if its outcome is not right.
func (k *kit) compareCallsOf(ctx context.Context, source string) bool {
	name := strings.TrimSuffix(filepath.Base(source), ".c")
	text, err := os.ReadFile(source)
	if err != nil {
		k.addRow(row{Name: name, Outcome: wrong, Why: err.Error()})
		return false
	}
	says, err := program.Parse(text)
	if err != nil || says.Broken != "" {
		k.addRow(row{Name: name, Outcome: cannot, Why: fmt.Sprint(err, says.Broken)})
		return false
	}
	p := task{
		name: name, path: strings.TrimSuffix(source, ".c"), args: says.Args, env: says.Env, stdin: says.Stdin, limit: says.Limit, devices: says.Devices,
	}
	if why := k.whyCannotCall(name, says); why != "" {
		k.addRow(row{Name: name, Outcome: cannot, Why: why})
		return false
	}
	ours := k.runProxied(ctx, p)
	if ours.wasCutShort(0) {
		return false // the caller reports that there is no time
	}
	wrongOurs, native := judgeEnd(says, ours), ""
	if k.isNatively(says) {
		printed := *says
		printed.Says = nil // these lines are the shim's, about calls that are not covered
		native = judgeEnd(&printed, k.runNatively(ctx, p))
	}
	if what, why := judgeBoth(wrongOurs, native); what != right {
		k.addRow(row{Name: name, Outcome: what, Why: why})
	}
	return wrongOurs == ""
}

// cannotNested are the programs of calls that no software GPU can pass in a driver's place.
var cannotNested = map[string]string{
	"memory_shared": "its kernels use pinned memory, which kernels on software GPUs do not reach where a backend registers it",
	"state_pinned":  "its kernels use pinned memory, which kernels on software GPUs do not reach where a backend registers it",
	"init_visible":  "it asks the management library, which is the shim's",
	"nccl_mismatch": "each rank has a GPU, and NCCL itself does not tell ranks that do not agree",
}

// whyCannotCall says why a program of calls cannot print here what it should, or "".
func (k *kit) whyCannotCall(name string, says *program.Program) string {
	switch {
	case k.soft:
		return ""
	case says.Software != "":
		return "it is for software GPUs: " + says.Software
	case k.nested:
		return cannotNested[name]
	}
	return ""
}

// judgeBoth returns the outcome of a program of calls, from its errors by proxyd and natively. A program that needs
// more GPUs than there are has no native error, and proxyd shows a program as many GPUs as it asks for.
func judgeBoth(ours, native string) (outcome, string) {
	switch {
	case ours == "" && native == "":
		return right, ""
	case ours == "":
		return differs, "natively: " + native
	case native == "":
		return wrong, "by proxyd: " + ours
	}
	return differs, "by proxyd: " + ours + "\nnatively: " + native
}

// isNatively tells whether the node has the devices that a program needs.
func (k *kit) isNatively(says *program.Program) bool { return k.soft || says.Devices <= k.gpus }

// judgeEnd returns how a program's end differs from the expectations, in a few lines, "" if there is no difference.
func judgeEnd(says *program.Program, e *programResult) string {
	if e.err != nil {
		return e.describeFailure()
	}
	found := says.Judge(e.stdout, e.stderr, e.exit)
	if found == "" {
		return ""
	}
	return found + "\n" + e.describeFailure()
}
