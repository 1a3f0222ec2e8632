//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures the cost of protection for the jobs of ordinary users on a real cluster, and compares our
// parts (capsule, dump, shim) with the same work without them. Each figure compares two variants that take turns in a
// single run. docs/performance.md has the method.
package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
	"github.com/singularity-slurm/singularity-slurm/tests/page"
)

// root is the root of the repository, as a path from this folder.
const root = "../.."

var (
	mcProgram   = flag.String("minicluster", "../../contrib/minicluster/minicluster", "the minicluster program")
	name        = flag.String("name", "bench", "name of the cluster")
	rounds      = flag.Int("rounds", 41, "turns of what takes a moment; of what takes a second, half as many")
	sizes       = flag.String("sizes", "1024,8192", "sizes of captured programs in MiB; those that do not fit into this machine are left out")
	paperRounds = flag.Int("paper-rounds", 3, "how often each thing of TestPaper is done")
	tableFile   = flag.String("table", "", "write the table into this file, relative to the root of the repository, between the lines that mark its place")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/bench needs root")
		os.Exit(1)
	}
	if _, err := os.Stat(*mcProgram); err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first: make build")
		os.Exit(1)
	}
	soft.Main(m)
}

// TestBench takes all figures, or with -run 'TestBench/^start' some, and prints them as a
// table. A figure that misses its aim is marked, and the test does not fail: people judge the figure, because they know
// the other load of the machine.
func TestBench(t *testing.T) {
	got := table{began: time.Now(), loads: readLoad()}
	t.Log("raising the cluster")
	c := raiseCluster(t, "--nodes", "2", "--singularity")
	for _, part := range []struct {
		name string
		take func(*testing.T, *cluster) []figure
	}{
		{"start", measureStart},
		{"speed", measureSpeed},
		{"network", measureNetwork},
		{"store", measureStorage},
		{"checkpoint", measureCheckpoints},
		{"criu", plainCRIU},
		{"parts", measureParts},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, f := range part.take(t, c) {
				t.Log(f)
				got.figures = append(got.figures, f)
			}
		})
	}
	text := got.String()
	t.Log("\n" + text)
	if *tableFile != "" && !t.Failed() {
		if err := page.Write(filepath.Join(root, *tableFile), "make bench", text); err != nil {
			t.Error(err)
		}
	}
}
