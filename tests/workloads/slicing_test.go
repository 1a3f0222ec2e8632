// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

var slicingTable = flag.String("slicing", "", "measure all of it and write the table into this file, relative to the root of the repository, between the lines that mark its place")

var slicingRows = flag.String("slicing-rows", ".", "measure only rows whose workload, ranks and way, such as \"gpt 2 splice\", match this regular expression; the others stay as they are")

// The machine of the model: a V100 with ResNet-50, whose mini-batch is the shortest of the paper's, so that a switch costs the most. Each
// workload stands for it: its instructions for the time of a mini-batch, the memory of a rank for the whole device.
const (
	modelBatch  = 210 * time.Millisecond  // of one rank, alone
	modelSwap   = 1333 * time.Millisecond // 16 GB by PCIe 3, in one direction
	modelSwitch = 1500 * time.Microsecond // whatever is moved
	modelRead   = 18 * time.Millisecond   // 16 GB of the device's memory by the device, at 900 GB/s; to write them takes as long
)

// slicingCase is a workload whose ranks share a device.
type slicingCase struct {
	name  string
	steps int
	args  []string
	bound float64 // of the modelled overhead of ranks whose memory fits, in percent
	once  float64 // the same where kernels that are alike run once, 0: there is no bound
	slow  bool    // only for the table
}

var slicingCases = []slicingCase{
	{"mlp", 12, nil, 5, 1, false},
	{"mlp", 12, []string{"--statistics"}, 5, 0, true},
	{"mlp", 3, []string{"--extra", "1000000"}, 10, 0, true},
	{"gpt", 3, nil, 10, 0, true},
	{"streams", 12, nil, 15, 0, true},
	{"grid", 6, nil, 25, 0, true},
}

// slicingRun is what a run printed, and what the devices of the machine counted, in all.
type slicingRun struct {
	lines []string
	took  time.Duration
	server.SharingStatus
}

// share runs a case on devices of a machine: of k ranks, with more flags of "proxyd run". What a run of one step counts, which is
// mostly the program's beginning, is left out.
func (c *slicingCase) share(t *testing.T, k int, flags ...string) slicingRun {
	t.Helper()
	begin, all := c.run(t, k, 1, flags...), c.run(t, k, c.steps+1, flags...)
	all.took -= begin.took
	all.Instructions -= begin.Instructions
	all.Switches -= min(begin.Switches, all.Switches)
	all.Interrupted -= min(begin.Interrupted, all.Interrupted)
	all.SwappedOut -= min(begin.SwappedOut, all.SwappedOut)
	all.SwappedIn -= min(begin.SwappedIn, all.SwappedIn)
	all.Compared -= min(begin.Compared, all.Compared)
	all.Taken -= min(begin.Taken, all.Taken)
	return all
}

// run runs some steps of a case.
func (c *slicingCase) run(t *testing.T, k, steps int, flags ...string) slicingRun {
	t.Helper()
	w := need(t)
	status := filepath.Join(t.TempDir(), "status")
	args := append([]string{"--ranks", fmt.Sprint(k), "--own-device", "--steps", fmt.Sprint(steps)}, c.args...)
	began := time.Now()
	r := w.Run(t, soft.Program{Devices: k, On: append(flags, "--status", status), Path: filepath.Join(w.Dir, c.name), Args: args, Limit: 4 * time.Minute})
	took := time.Since(began)
	if r.Exit != 0 {
		t.Fatalf("%s %v %v: exit status %d\n%s%s", c.name, args, flags, r.Exit, r.Stdout, r.Stderr)
	}
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	var st server.Status
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	out := slicingRun{lines: strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), took: took}
	for _, d := range st.Sharing {
		out.Instructions += d.Instructions
		out.Switches += d.Switches
		out.Interrupted += d.Interrupted
		out.SwappedOut += d.SwappedOut
		out.SwappedIn += d.SwappedIn
		out.Once += d.Once
		out.Own += d.Own
		out.Compared += d.Compared
		out.Taken += d.Taken
		out.Why = d.Why
		out.Peak = max(out.Peak, d.Peak)
	}
	return out
}

// overhead is the time that k ranks take on one device by the model, over k times that of one, in percent, of which the instructions
// are those that were executed. Nothing in it is a time that was measured.
func (c *slicingCase) overhead(k int, alone, shared slicingRun) float64 {
	ideal := float64(k*c.steps) * modelBatch.Seconds()
	took := ideal * float64(shared.Instructions) / float64(alone.Instructions)
	took += float64(shared.Switches) * modelSwitch.Seconds()
	took += float64(shared.SwappedOut+shared.SwappedIn) / float64(alone.Peak) * modelSwap.Seconds()
	took += float64(shared.Compared+2*shared.Taken) / float64(alone.Peak) * modelRead.Seconds()
	return 100 * (took/ideal - 1)
}

// cells are the first cells of the case's line of the table.
func (c *slicingCase) cells(k int, way string) string {
	return fmt.Sprintf("| %s | %d | %s |", strings.Join(append([]string{c.name}, c.args...), " "), k, way)
}

// row is the case's line of the table.
func (c *slicingCase) row(k int, way string, alone, shared slicingRun) string {
	per := float64(c.steps)
	clock := "–" // on a busy machine the run of one step that is subtracted may have taken longer
	if shared.took > 0 && alone.took > 0 {
		clock = fmt.Sprintf("%.2f", shared.took.Seconds()/alone.took.Seconds())
	}
	return fmt.Sprintf("%s %.1f | %.1f | %.2f | %+.1f %% | %s |\n", c.cells(k, way),
		float64(shared.Switches)/per, float64(shared.Interrupted)/per, float64(shared.SwappedOut+shared.SwappedIn)/float64(alone.Peak)/per,
		c.overhead(k, alone, shared), clock)
}

// TestSlicing: ranks that share one device, in each way that there is, compute the bits of ranks with one each, by as many instructions, and what
// the sharing costs by the model is bounded.
func TestSlicing(t *testing.T) {
	var table strings.Builder
	table.WriteString("| workload | ranks | way | switches | of them in the middle of work | memories of a rank moved | overhead, modelled | time by the clock |\n")
	table.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	wanted := regexp.MustCompile(*slicingRows)
	sizes := []int{2, 4, 8}
	if *slicingTable == "" {
		sizes = []int{4}
	}
	for _, c := range slicingCases {
		for _, k := range sizes {
			if c.name == "grid" && k%4 != 0 || c.slow && *slicingTable == "" {
				continue
			}
			var alone slicingRun
			for _, way := range []struct{ name, rung, memory string }{
				{"resident", server.RungSwap, "1G"}, {"swap", server.RungSwap, ""}, {"alias", server.RungAlias, ""}, {"splice", server.RungSplice, "1G"},
			} {
				if !wanted.MatchString(strings.ReplaceAll(c.cells(k, way.name), "|", "")) {
					table.WriteString(c.cells(k, way.name) + "\n")
					continue
				}
				if alone.lines == nil {
					alone = c.share(t, k, "--memory", "1G")
				}
				if way.memory == "" {
					way.memory = fmt.Sprint(max(alone.Peak, backend.Granule))
				}
				shared := c.share(t, k, "--on", "1", "--memory", way.memory, "--rung", way.rung)
				same(t, fmt.Sprintf("%s %v, %d ranks, %s", c.name, c.args, k, way.name), shared.lines, alone.lines)
				if shared.Instructions > alone.Instructions {
					t.Errorf("%s: %d ranks on one device execute %d instructions, %d on devices of their own", c.name, k, shared.Instructions, alone.Instructions)
				}
				bounds := map[string]float64{"resident": c.bound, "splice": c.once}
				if o, bound := c.overhead(k, alone, shared), bounds[way.name]; bound > 0 && o > bound {
					t.Errorf("%s %v: %d ranks on one device take %.1f %% longer than they should, by the model, not %.1f %%", c.name, c.args, k, o, bound)
				}
				t.Logf("%s %v, %d ranks, %s: %+v", c.name, c.args, k, way.name, shared.SharingStatus)
				table.WriteString(c.row(k, way.name, alone, shared))
			}
		}
	}
	t.Logf("\n%s", &table)
	if *slicingTable != "" && !t.Failed() {
		writeSlicing(t, table.String())
	}
}

// TestSplice: ranks of which kernels run once compute the bits of ranks with devices of their own, on any number of devices.
func TestSplice(t *testing.T) {
	c := slicingCase{name: "mlp"}
	alone := c.run(t, 4, 2)
	for _, on := range []string{"1", "2", "3"} {
		r := c.run(t, 4, 2, "--on", on, "--rung", server.RungSplice)
		same(t, on+" devices", r.lines, alone.lines)
		// On three devices, two ranks share one.
		if r.Once == 0 || r.Instructions >= alone.Instructions {
			t.Errorf("%s devices: %d kernels took the result of another rank; %d instructions, %d on devices of their own", on, r.Once, r.Instructions, alone.Instructions)
		}
	}
}

// The lines between which the file has the table.
const (
	slicingBegin = "<!-- make slicing writes from here -->\n"
	slicingEnd   = "<!-- to here -->\n"
)

// writeSlicing writes the table into the file. A row that was not measured stays as the file has it.
func writeSlicing(t *testing.T, table string) {
	t.Helper()
	file := filepath.Join("..", "..", *slicingTable)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), slicingBegin)
	_, after, ended := strings.Cut(rest, slicingEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table: %q and %q", file, slicingBegin, slicingEnd)
	}
	was, _, _ := strings.Cut(rest, slicingEnd)
	rows := strings.SplitAfter(table, "\n")
	for i, row := range rows {
		if cells, ok := strings.CutSuffix(row, "|\n"); ok && strings.Count(cells, "|") == 3 {
			_, row, _ = strings.Cut(was, cells)
			row, _, _ = strings.Cut(row, "\n")
			rows[i] = cells + row + "\n"
		}
	}
	table = strings.Join(rows, "")
	if err := os.WriteFile(file, []byte(before+slicingBegin+"\n"+table+"\n"+slicingEnd+after), 0o666); err != nil {
		t.Fatal(err)
	}
}
