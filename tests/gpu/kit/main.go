// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Gpukit shows on a node with NVIDIA GPUs which programs work there, without Go, a compiler or a network. Gpukit runs
// the archive of `make gpu-kit`, step by step, and writes a table and a JSON. docs/gpu.md says how to use the kit.
//
//	main.go report.go     options; the table and the JSON
//	nested.go             all of it over a software GPU in the driver's place
//	run.go                programs as children: natively, and by proxyd over a device server
//	node.go suite.go      the steps: inventory; the suite of backends; programs that are compared; PyTorch and JAX; nvcc;
//	compare.go pytorch.go   costs and the probe's questions; device servers that are replaced
//	nvcc.go costs.go replace.go
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// The exit statuses.
const (
	exitRight = 0
	exitWrong = 1
	exitUsage = 2
	exitRuns  = 3  // of --check-options: without it, the kit would run
	exitNone  = 77 // there is no GPU
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := runKit(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// step is a part of the kit. A step that fails leaves the later steps as they are.
type step struct {
	name  string
	does  string
	limit time.Duration
	run   func(context.Context, *kit)
}

// steps are in the order in which they run: steps that show much in little time are first.
var steps = []step{
	{"node", "what the node has: GPUs, driver, C library, python3 with PyTorch and JAX, nvcc, CRIU", 2 * time.Minute, describeNode},
	{"suite", "the suite of device backends on the driver", 4 * time.Minute, runSuite},
	{"workloads", "training programs natively and by proxyd: the same hashes, and the slow-down", 3 * time.Minute, compareWorkloads},
	{"pytorch", "PyTorch and JAX natively and by proxyd: the same losses and words, step time, memory; E9", 8 * time.Minute, compareTrainings},
	{"nvcc", "a program that this node's nvcc compiles, natively and by proxyd", time.Minute, compareCompiled},
	{"replace", "device servers saved, killed and restored under programs; whole processes by CRIU", 10 * time.Minute, replaceServers},
	{"calls", "programs of each area of calls, natively and by proxyd, against what they should print", 4 * time.Minute, compareCalls},
	{"costs", "what calls and copies cost, natively and by proxyd, and the part of PCIe's speed", 2 * time.Minute, measureCosts},
	{"probe", "the questions E1 to E10, natively", 5 * time.Minute, askQuestions},
	{"missed", "calls that programs asked for and that are not covered", time.Second, listMissed},
}

// options are the command line.
type options struct {
	out, only, match, driver, python, nvcc string
	steps                                  int
	limit                                  time.Duration
	soft, nested, check                    bool
}

// kit is a run: where the files are, and the facts that were found so far.
type kit struct {
	options
	home   string // the unpacked archive
	step   string
	report *report
	gpus   int
	why    string // why there is no GPU; "": there is
	libs   []string
	triton string               // version of PyTorch's compiler, or "none"
	absent map[framework]string // why a framework cannot be used, or ""; nil until that is found out
	pcie   float64
	missed map[string][]string // programs that asked for a call, by the name of the call
	status int                 // numbers status files
}

// fewestSteps is how many steps a training needs at least: a step's time is the median of two thirds of them, without the first.
const fewestSteps = 4

// parseOptions reads the command line. --help is printed to help.
func parseOptions(args []string, help io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.StringVar(&o.out, "out", "", "write table.txt, result.json and logs to this `FOLDER` (default: gpu-kit-out in the working folder)")
	f.StringVar(&o.only, "only", "", "run these `STEPS` only, as suite,probe")
	f.StringVar(&o.match, "match", "", "of the steps workloads, pytorch, nvcc, replace and calls, run the rows that have this `TEXT` in their names only")
	f.StringVar(&o.driver, "driver", "", "take libcuda.so.1 and its like from this `FOLDER`")
	f.StringVar(&o.python, "python", "python3", "the Python that may have PyTorch, transformers and JAX: a `PROGRAM`")
	f.StringVar(&o.nvcc, "nvcc", "nvcc", "CUDA's compiler, a `PROGRAM`; without it in PATH, that of /usr/local/cuda")
	f.IntVar(&o.steps, "steps", 50, fmt.Sprintf("train `N` steps, at least %d", fewestSteps))
	f.DurationVar(&o.limit, "limit", 25*time.Minute, "begin no step after this `TIME`, and end the step that runs then")
	f.BoolVar(&o.soft, "soft", false, "rehearse without a GPU: software GPUs are taken for both sides, and what needs a driver is left out")
	f.BoolVar(&o.nested, "nested", false, "rehearse without a GPU: have the driver be our own shim, over two software GPUs in another device server")
	f.BoolVar(&o.check, "check-options", false, "check the options, and run nothing")
	_ = f.MarkHidden("check-options") // for tests/gpu/run
	f.Usage = func() { printUsage(f, help) }
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments are taken", f.Arg(0))
	}
	if o.nested && (o.soft || o.driver != "") {
		return nil, errors.New("--nested says itself which driver there is: not with --soft or --driver")
	}
	if o.isSlow() && !f.Changed("limit") {
		o.limit *= slowness
	}
	if o.steps < fewestSteps {
		return nil, fmt.Errorf("--steps %d: it is %d or more", o.steps, fewestSteps)
	}
	if o.limit <= 0 {
		return nil, fmt.Errorf("--limit %s: it is more than 0", o.limit)
	}
	if f.Changed("only") && len(o.chosenSteps()) == 0 {
		return nil, fmt.Errorf("--only %q: it names no step", o.only)
	}
	for _, name := range o.chosenSteps() {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			return nil, fmt.Errorf("--only %s: there is no step %s", o.only, name)
		}
	}
	if o.out == "" {
		o.out = "gpu-kit-out"
	}
	var err error
	o.out, err = filepath.Abs(o.out)
	return o, err
}

func printUsage(f *pflag.FlagSet, to io.Writer) {
	fmt.Fprint(to, "usage: run [OPTIONS]\n\nShows what of Singularity for Slurm works on this node's GPUs. It needs the driver, and nothing else;\n"+
		"PyTorch, transformers, JAX, nvcc and CRIU are used where the node has them. It changes nothing of the node. The steps:\n\n")
	for _, s := range steps {
		fmt.Fprintf(to, "  %-10s %s\n", s.name, s.does)
	}
	fmt.Fprint(to, "\nOptions:\n\n")
	fmt.Fprint(to, f.FlagUsages())
	fmt.Fprint(to, "\nExit status: 0 if all was right, 1 if something was wrong, 2 for wrong use, 77 without a GPU.\n")
}

// chosenSteps are the names in --only.
func (o *options) chosenSteps() []string {
	return strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' })
}

// runKit is the whole program: it parses the arguments, runs the steps and returns the exit status.
func runKit(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := parseOptions(args, out)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitRight
	case err != nil:
		fmt.Fprintf(errs, "run: %v; --help lists the steps and options\n", err)
		return exitUsage
	case o.check:
		return exitRuns
	}
	self, err := os.Executable()
	if err == nil {
		err = o.enterNested(self, args)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(o.out, "logs"), 0o777)
	}
	if err != nil {
		fmt.Fprintln(errs, "run:", err)
		return exitUsage
	}
	k := &kit{options: *o, home: filepath.Dir(filepath.Dir(self)), missed: map[string][]string{}}
	if k.report, err = newReport(o.out, out); err != nil {
		fmt.Fprintln(errs, "run:", err)
		return exitUsage
	}
	k.findGPUs()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	for _, s := range steps {
		if chosen := o.chosenSteps(); len(chosen) == 0 || slices.Contains(chosen, s.name) {
			k.runStep(ctx, s)
		}
	}
	if k.match != "" && len(k.report.Rows) == 0 {
		fmt.Fprintf(errs, "run: --match %s: no row of these steps has that in its name\n", k.match)
		return exitUsage
	}
	if err := k.report.finishReport(); err != nil {
		fmt.Fprintln(errs, "run:", err)
		return exitWrong
	}
	switch {
	case k.report.countOutcomes(wrong) > 0:
		return exitWrong
	case k.why != "" && !k.soft:
		return exitNone
	}
	return exitRight
}

// slowness is how much more time steps have on software GPUs.
const slowness = 5

// runStep runs a step within the limits. A step that panics has failed, and the next runs.
func (k *kit) runStep(ctx context.Context, s step) {
	k.step = s.name
	defer func() {
		if r := recover(); r != nil {
			k.addRow(row{Name: s.name, Outcome: wrong, Why: fmt.Sprintf("the kit itself: %v\n%s", r, debug.Stack())})
		}
	}()
	if err := ctx.Err(); err != nil {
		k.addRow(row{Name: s.name, Outcome: cannot, Why: "the time of --limit is over"})
		return
	}
	limit := s.limit
	if k.isSlow() {
		limit *= slowness
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.run(ctx, k)
}

// addRow adds a row to the report.
func (k *kit) addRow(r row) {
	r.Step = k.step
	k.report.addRow(r)
}

// isChosen tells whether --match has a row of that name run.
func (k *kit) isChosen(name string) bool { return strings.Contains(name, k.match) }

// needGPU tells whether there is a GPU. If not, it adds a row that the step cannot run.
func (k *kit) needGPU(name string) bool {
	if k.why == "" || k.soft {
		return true
	}
	k.addRow(row{Name: name, Outcome: cannot, Why: k.why})
	return false
}

// needDriver is needGPU for a step that needs the real driver, not a software GPU.
func (k *kit) needDriver(name string) bool {
	if k.why == "" {
		return true
	}
	k.addRow(row{Name: name, Outcome: cannot, Why: k.why})
	return false
}
