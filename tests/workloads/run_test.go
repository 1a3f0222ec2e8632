// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

func TestMain(m *testing.M) { soft.Main(m) }

var compiled sync.Once

// needWorld returns the software GPU's files, with all programs compiled.
func needWorld(t *testing.T) *soft.World {
	t.Helper()
	w := soft.Need(t)
	var err error
	compiled.Do(func() { err = w.Command("make", "-s", "-C", "tests/workloads", "O="+w.Dir) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runProgram runs a program and returns its lines.
func runProgram(t *testing.T, devices int, stdin, name string, args ...string) []string {
	t.Helper()
	return runOn(t, devices, nil, stdin, name, args...)
}

// runOn is runProgram, with devices that share other devices.
func runOn(t *testing.T, devices int, on []string, stdin, name string, args ...string) []string {
	t.Helper()
	w := needWorld(t)
	r := w.Run(t, soft.Program{Devices: devices, On: on, Path: filepath.Join(w.Dir, name), Args: args, Stdin: strings.NewReader(stdin), Limit: 2 * time.Minute})
	if r.Exit != 0 {
		t.Fatalf("%s %q ended with %d\nstdout:\n%s\nstderr:\n%s", name, args, r.Exit, r.Stdout, r.Stderr)
	}
	return strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
}

var stepLine = regexp.MustCompile(`^step (\d+) loss (\d+\.\d+) hash [0-9a-f]{16}$`)

// checkTraining checks that lines are the lines of steps, from 1, and that the loss falls.
func checkTraining(t *testing.T, lines []string, steps int) {
	t.Helper()
	if len(lines) != steps {
		t.Fatalf("%d lines, not %d:\n%s", len(lines), steps, strings.Join(lines, "\n"))
	}
	var first, last float64
	for i, l := range lines {
		m := stepLine.FindStringSubmatch(l)
		if m == nil || m[1] != fmt.Sprint(i+1) {
			t.Fatalf("line %d is not that of its step: %q", i, l)
		}
		fmt.Sscan(m[2], &last)
		if i == 0 {
			first = last
		}
	}
	if !(last < first) {
		t.Errorf("the model learns nothing: the loss was %g and is %g", first, last)
	}
}

// checkSame fails unless both runs printed the same.
func checkSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: line %d is\n%s, not\n%s", what, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d lines, not %d", what, len(got), len(want))
	}
}

// TestTraining: the output of data-parallel training depends on the number of ranks alone.
func TestTraining(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps int
	}{{"mlp", 12}, {"gpt", 4}} {
		t.Run(c.name, func(t *testing.T) {
			steps := []string{"--steps", fmt.Sprint(c.steps)}
			one := runProgram(t, 1, "", c.name, steps...)
			checkTraining(t, one, c.steps)
			checkSame(t, "once more", runProgram(t, 1, "", c.name, steps...), one)
			if other := runProgram(t, 1, "", c.name, "--steps", "1", "--seed", "2"); other[0] == one[0] {
				t.Error("another seed makes no difference")
			}
			two := runProgram(t, 2, "", c.name, append(steps, "--ranks", "2")...)
			checkTraining(t, two, c.steps)
			if two[c.steps-1] == one[c.steps-1] {
				t.Error("two ranks print the hash of one rank, want another")
			}
			checkSame(t, "in processes", runProgram(t, 2, "", c.name, append(steps, "--ranks", "2", "--processes")...), two)
		})
	}
}

// TestSharing: ranks that share devices compute the same bits as ranks with a device each.
func TestSharing(t *testing.T) {
	want := runProgram(t, 4, "", "mlp", "--ranks", "4", "--steps", "4")
	for _, c := range []struct {
		devices int
		args    []string
	}{{1, nil}, {2, nil}, {3, []string{"--processes"}}, {1, []string{"--processes"}}, {4, []string{"--devices", "2"}}} {
		got := runProgram(t, c.devices, "", "mlp", append(c.args, "--ranks", "4", "--steps", "4")...)
		checkSame(t, fmt.Sprintf("%d devices %v", c.devices, c.args), got, want)
	}
}

// TestPlacement: programs that run on fewer devices see as many as before, and compute the same bits on any placement.
func TestPlacement(t *testing.T) {
	places := [][]string{{"--on", "1"}, {"--on", "2"}, {"--on", "3"}, {"--on", "2", "--order", "1,0,0,1"}}
	for _, c := range []struct {
		name  string
		steps string
		more  []string
	}{
		{"mlp", "3", nil}, {"gpt", "2", nil}, {"grid", "3", nil}, {"streams", "3", nil},
		{"mlp", "3", []string{"--zero", "3"}}, {"gpt", "2", []string{"--recompute"}},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.more...), " "), func(t *testing.T) {
			args := append([]string{"--ranks", "4", "--steps", c.steps}, c.more...)
			want := runProgram(t, 4, "", c.name, args...)
			for i, on := range places {
				checkSame(t, fmt.Sprintf("threads, %v", on), runOn(t, 4, on, "", c.name, args...), want)
				if !testing.Short() || i == len(places)-1 {
					checkSame(t, fmt.Sprintf("processes, %v", on), runOn(t, 4, on, "", c.name, append(args, "--processes")...), want)
				}
			}
		})
	}
}

// TestSwapped: on a device that has room for a single rank's memory, four ranks have the results of four ranks on four
// devices.
func TestSwapped(t *testing.T) {
	w := needWorld(t)
	args := []string{"--ranks", "4", "--steps", "3"}
	want := runProgram(t, 4, "", "mlp", args...)
	for _, more := range [][]string{nil, {"--processes"}, {"--processes", "--zero", "3"}} {
		r := w.Run(t, soft.Program{
			Devices: 4, On: []string{"--on", "1", "--memory", "2M", "--verbose"}, Path: filepath.Join(w.Dir, "mlp"), Args: append(args, more...), Limit: 2 * time.Minute,
		})
		if r.Exit != 0 || !strings.Contains(r.Stderr, "memory was swapped") {
			t.Fatalf("%v: exit status %d\n%s%s", more, r.Exit, r.Stdout, r.Stderr)
		}
		checkSame(t, fmt.Sprint(more), strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), want)
	}
}

// TestLauncher: ranks that a launcher starts, as torchrun and srun do, find each other by a file.
func TestLauncher(t *testing.T) {
	w := needWorld(t)
	mlp, id := filepath.Join(w.Dir, "mlp"), filepath.Join(t.TempDir(), "id")
	want := runProgram(t, 2, "", "mlp", "--ranks", "2", "--steps", "3")
	for name, env := range map[string]string{
		"torchrun": "RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r",
		"srun":     "SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r",
	} {
		script := fmt.Sprintf(`for r in 1 0; do %s %s --id-file %s --steps 3 & all="$all $!"; done; for p in $all; do wait $p || exit 1; done`, env, mlp, id)
		r := w.Run(t, soft.Program{Devices: 2, Path: "/bin/sh", Args: []string{"-c", script}, Limit: 2 * time.Minute})
		if r.Exit != 0 {
			t.Fatalf("%s: exit status %d\n%s%s", name, r.Exit, r.Stdout, r.Stderr)
		}
		checkSame(t, name, strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), want)
	}
}

// TestAccumulated: n ranks that each add up the gradients of two batches train bit for bit as 2n ranks with a batch each,
// because a collective adds along the tree of the ranks' numbers. The same holds on fewer devices, where the ranks of a
// device run an update once.
func TestAccumulated(t *testing.T) {
	args := func(ranks, batches int) []string {
		return []string{"--ranks", fmt.Sprint(ranks), "--accumulate", fmt.Sprint(batches), "--own-device", "--steps", "6"}
	}
	for _, ranks := range []int{1, 2, 4} {
		want := runProgram(t, 2*ranks, "", "mlp", args(2*ranks, 1)...)
		checkTraining(t, want, 6)
		for on := ranks; on >= 1; on /= 2 {
			what := fmt.Sprintf("%d ranks with two batches each, on %d devices", ranks, on)
			checkSame(t, what, runOn(t, ranks, []string{"--on", fmt.Sprint(on)}, "", "mlp", args(ranks, 2)...), want)
		}
	}
}

// TestDivided: ranks that divide a model have the results of ranks with a whole model each, bit by bit: a rank's share
// of a sum is added along the same tree. The numbers of ranks do not divide the layers' sizes.
func TestDivided(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		for _, c := range []struct{ same, divided []string }{
			{nil, []string{"--zero", "1"}},
			{nil, []string{"--zero", "3"}},
			{[]string{"--accumulate", "2"}, []string{"--accumulate", "2", "--zero", "1"}},
			{[]string{"--extra", "1001"}, []string{"--extra", "1001", "--zero", "3"}},
		} {
			args := []string{"--ranks", fmt.Sprint(ranks), "--steps", "4"}
			want := runProgram(t, ranks, "", "mlp", append(args, c.same...)...)
			checkTraining(t, want, 4)
			checkSame(t, fmt.Sprintf("%d ranks, %v", ranks, c.divided), runProgram(t, ranks, "", "mlp", append(args, c.divided...)...), want)
		}
	}
}

// TestRecomputed: a training that computes activations a second time, for the gradients, has the same losses and parameters.
func TestRecomputed(t *testing.T) {
	args := []string{"--ranks", "2", "--steps", "3"}
	want := runProgram(t, 2, "", "gpt", args...)
	checkSame(t, "computed again", runProgram(t, 2, "", "gpt", append(args, "--recompute")...), want)
}

// TestGradients: the whole models' gradients agree with differences of the loss.
func TestGradients(t *testing.T) {
	if testing.Short() {
		t.Skip("the comparison takes some seconds")
	}
	runProgram(t, 1, "", "mlp", "--gradients")
	runProgram(t, 1, "", "gpt", "--gradients")
	runProgram(t, 1, "", "gpt", "--gradients", "--recompute")
}

func TestGrid(t *testing.T) {
	lines := runProgram(t, 4, "", "grid", "--ranks", "4", "--steps", "8")
	checkTraining(t, lines, 8)
	checkSame(t, "in processes", runProgram(t, 4, "", "grid", "--ranks", "4", "--steps", "8", "--processes"), lines)
}

func TestStreams(t *testing.T) {
	lines := runProgram(t, 1, "", "streams", "--steps", "9")
	if len(lines) != 9 {
		t.Fatalf("streams, want 9 lines: %v", lines)
	}
	checkSame(t, "once more", runProgram(t, 1, "", "streams", "--steps", "9"), lines)
	// With a collective in the graph of the program.
	two := runProgram(t, 2, "", "streams", "--steps", "6", "--ranks", "2")
	checkSame(t, "in processes", runProgram(t, 2, "", "streams", "--steps", "6", "--ranks", "2", "--processes"), two)
}

func TestServe(t *testing.T) {
	requests := "hello\n\nwhat is it?\nhello\nquit\nnever read\n"
	lines := runProgram(t, 1, requests, "serve")
	if len(lines) != 4 {
		t.Fatalf("serve, want 4 lines: %v", lines)
	}
	answer := regexp.MustCompile(`^request (\d+) answer "[ a-z.,!?-]{16}" hash [0-9a-f]{16}$`)
	for i, l := range lines {
		if m := answer.FindStringSubmatch(l); m == nil || m[1] != fmt.Sprint(i+1) {
			t.Errorf("line %d is not that of its answer: %q", i, l)
		}
	}
	if lines[0][10:] == lines[3][10:] {
		t.Error("two requests of one conversation have the same answer")
	}
	checkSame(t, "once more", runProgram(t, 1, requests, "serve"), lines)
}

// TestUntil: a training that ends when a file appears ends on all ranks after the same step, whenever the file is made.
func TestUntil(t *testing.T) {
	for _, name := range []string{"mlp", "gpt"} {
		t.Run(name, func(t *testing.T) {
			stop := filepath.Join(t.TempDir(), "stop")
			args := []string{"--ranks", "4", "--processes", "--steps", "0", "--until", stop}
			time.AfterFunc(500*time.Millisecond, func() { // wherever that is in the program's life
				if err := os.WriteFile(stop, nil, 0o600); err != nil {
					t.Error(err)
				}
			})
			got := runProgram(t, 2, "", name, args...)
			if again := runProgram(t, 2, "", name, args...); len(again) != 1 || again[0] != got[0] {
				t.Errorf("a file that is there at the start does not end the training after its first step %q:\n%s",
					got[0], strings.Join(again, "\n"))
			}
			checkSame(t, "as many steps, asked for by number", runProgram(t, 2, "", name, "--ranks", "4", "--steps", fmt.Sprint(len(got))), got)
			if len(runProgram(t, 2, "", name, append(args, "--steps", "2", "--until", stop+".never")...)) != 2 {
				t.Error("without the file, --steps no longer ends the training")
			}
		})
	}
}
