// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	const undisturbed = "1 4.5 100.1 aa\n2 3.5 100.2 bb\n3 2.5 100.3 cc\n"
	for _, c := range []struct {
		name, disturbed string
		same            bool
	}{
		{"the same, at other times", "1 4.5 100.1 aa\n2 3.5 140.2 bb\n3 2.5 150.3 cc\n", true},
		{"the undisturbed one made more steps", "1 4.5 100.1 aa\n2 3.5 140.2 bb\n", true},
		{"the undisturbed one made fewer steps", undisturbed + "4 1.5 100.4 dd\n", false},
		{"another loss", "1 4.5 100.1 aa\n2 3.6 140.2 bb\n", false},
		{"the same loss, another hash", "1 4.5 100.1 aa\n2 3.5 140.2 b0\n", false},
		{"a step twice", "1 4.5 100.1 aa\n1 4.5 140.2 aa\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			out := filepath.Join(dir, "out.png")
			same, err := drawPlot([]string{
				write("calm", undisturbed), write("moved", c.disturbed),
				write("runs", "training|100|130|n[1-2]|cpu=4,gres/gpu=4\ntraining|140|160|n[3-4]|cpu=4,gres/gpu=2\nnever|Unknown|Unknown||\n"),
				write("marks", "135 it moves\n"), out,
			})
			if err != nil || same != c.same {
				t.Fatalf("plot: same %v, error %v; want same %v", same, err, c.same)
			}
			file, err := os.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if img, err := png.Decode(file); err != nil || img.Bounds().Dx() != width {
				t.Errorf("decode the picture: %v", err)
			}
		})
	}
}

// The error about a wrong file names the file and the line.
func TestPlotBadInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "losses")
	if err := os.WriteFile(path, []byte("1 4.5 100.1 aa\n2 what\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := drawPlot([]string{path, path, path, path, path}); err == nil || !strings.Contains(err.Error(), path+":2:") {
		t.Errorf("plot: %v, want the path and line 2", err)
	}
}

// TestGroupRuns shows that runs of a job at the same time are stacked, and other runs are not.
func TestGroupRuns(t *testing.T) {
	bands := groupRuns([]run{
		{"training", "n[1-2]", 4, 100, 120}, {"lent", "n3", 1, 125, 140}, {"training", "n[3-4]", 2, 121, 140},
		{"lent", "n4", 1, 126, 140}, {"lent", "n5", 2, 130, 135}, {"lent", "n3", 1, 140, 150},
	})
	if len(bands) != 2 || bands[0].job != "training" || bands[1].job != "lent" {
		t.Fatalf("groupRuns = %+v, want the bands training and lent", bands)
	}
	if b := bands[0]; b.most != 4 || !slices.Equal(b.below, []int{0, 0}) {
		t.Errorf("runs one after the other: %+v", b)
	}
	if b := bands[1]; b.most != 4 || !slices.Equal(b.below, []int{0, 1, 2, 0}) {
		t.Errorf("runs at the same time: %+v", b)
	}
}

func TestRoundStep(t *testing.T) {
	for span, want := range map[float64]float64{4.38: 1, 6: 1, 6.1: 2, 0.3: 0.05, 64: 20, 0: 2e-10} {
		if got := roundStep(span, 6); math.Abs(got-want) > want/1000 {
			t.Errorf("%g in at most 6 steps: %g, want %g", span, got, want)
		}
	}
}
