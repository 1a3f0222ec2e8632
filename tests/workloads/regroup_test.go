// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestRegrouped: two grids of tensor- and pipeline-parallel ranks, in which replicas add up gradients, begin on half of
// the GPUs, where neighbours share: ranks of the same grid. While the ranks train, replicas come to share GPUs, and the bits
// are the same as with a GPU for each rank. With --order, ranks stay where the order has put them.
func TestRegrouped(t *testing.T) {
	w := needWorld(t)
	args := []string{"--ranks", "8", "--steps", "16"}
	want := runProgram(t, 8, "", "grid", args...)
	for _, c := range []struct {
		name string
		on   []string
		ends []int
	}{
		{"by itself", []string{"--on", "4"}, []int{0, 1, 2, 3, 0, 1, 2, 3}},
		{"in an order", []string{"--on", "4", "--order", "0,0,1,1,2,2,3,3"}, []int{0, 0, 1, 1, 2, 2, 3, 3}},
	} {
		file := filepath.Join(t.TempDir(), "status")
		r := w.Run(t, soft.Program{Devices: 8, On: append(c.on, "--status", file), Path: filepath.Join(w.Dir, "grid"), Args: args, Limit: 4 * time.Minute})
		if r.Exit != 0 {
			t.Fatalf("%s: exit status %d\n%s%s", c.name, r.Exit, r.Stdout, r.Stderr)
		}
		checkSame(t, c.name, strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), want)
		var st server.Status
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		var on []int
		for _, d := range st.Devices {
			on = append(on, d.On)
		}
		if !slices.Equal(on, c.ends) {
			t.Errorf("%s: devices are on %v at the end, want %v", c.name, on, c.ends)
		}
	}
}
