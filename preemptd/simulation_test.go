// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

// runSimulation runs preemptd simulate with arguments.
func runSimulation(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := rootCommand()
	c.SetArgs(append([]string{"simulate"}, args...))
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	err = c.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestSimulate plays a trace of three jobs with the real policy, from the files that an
// administrator has.
func TestSimulate(t *testing.T) {
	folder := sdktest.BuildFolder(t, "tiers")
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	site := write("preemptd.yaml", "policies: [tiers]\ntiers: {premium: [gold]}\nrules: {window: 1h, min_run: 1m, cool_down: 1m}\npolicy: {folder: "+folder+", settings: "+folder+", timeout: 2m}\n")
	trace := write("jobs.csv", "id,submit,duration,gpus,qos\n1,0,1000,8,basic\n2,595,300,8,gold\n3,596,10,8,basic\n")
	picture := filepath.Join(folder, "out.svg")
	out, errs, err := runSimulation(t, "--config", site, "--trace", trace, "--nodes", "1", "--json", "--picture", picture)
	if err != nil {
		t.Fatal(err, errs)
	}
	var read struct {
		Results []struct {
			Name      string
			Makespan  float64
			Preempted int
			Redone    float64 `json:"lost_redone"`
			Still     float64 `json:"lost_dump_restore"`
			Tiers     map[string]struct {
				Jobs int
				Wait struct{ Mean float64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &read); err != nil || len(read.Results) != 3 {
		t.Fatalf("JSON of the simulation: %v, want 3 results in\n%s", err, out)
	}
	for i, want := range []struct {
		name             string
		wait             float64 // of the premium job, which is asked about at 600
		redone, still    float64
		makespan         float64
		preempted, basic int
	}{
		{"FIFO and backfill", 405, 0, 0, 1310, 0, 2},
		{"kill and requeue", 5, 8 * 600, 0, 1910, 1, 2},
		{"tiers", 15, 0, 8 * 30, 1340, 1, 2},
	} {
		got := read.Results[i]
		if got.Name != want.name || got.Tiers["premium"].Wait.Mean != want.wait || got.Redone != want.redone || got.Still != want.still ||
			got.Makespan != want.makespan || got.Preempted != want.preempted || got.Tiers["basic"].Jobs != want.basic {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("kill and requeue")) {
		t.Errorf("picture: %v, or it lacks \"kill and requeue\"", err)
	}
	if !strings.Contains(errs, "tiers: ") {
		t.Errorf("standard error has no times: %q", errs)
	}
	if out, _, err = runSimulation(t, "--config", site, "--generate", "50", "--nodes", "4", "--against", "", "-q"); err != nil || !strings.Contains(out, "GPU fraction") || strings.Contains(out, "FIFO") {
		t.Errorf("simulation against no other: %v\n%s", err, out)
	}
}

func TestSimulateSaysWhatIsWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.csv")
	if err := os.WriteFile(empty, []byte("id,submit,duration,gpus\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                         "give --trace FILE or --generate N",
		"--trace a --generate 1":                   "not both",
		"--generate 1":                             "--nodes 0: say how many",
		"--generate 1 --nodes 1 --gpus 65":         "--gpus 65: want 1 to 64",
		"--generate 1 --nodes 1 --load NaN":        "--load NaN",
		"--generate 1 --nodes 1 --picture a.png":   "ends in .svg",
		"--generate 1 --nodes 1 --against x":       "--against x: want fifo or kill",
		"--generate 1 --nodes 1 --every 1ms":       "--every 1ms: want at least 1s",
		"--trace /nonexistent/trace --nodes 1":     "no such file",
		"--trace " + empty + " --nodes 1":          "has no jobs with GPUs",
		"--generate 1 --nodes 1 --policies absent": "sing-policy-absent: no such file",
	} {
		_, _, err := runSimulation(t, append([]string{"--config", "/etc/singularity-slurm/preemptd.yaml"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("preemptd simulate %q: %v, want %q", args, err, want)
		}
	}
}
