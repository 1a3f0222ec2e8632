// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	_ "embed"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/options.py
var optionsScript string

// TestOptionsAreAll: the table has exactly the options of srun itself.
func TestOptionsAreAll(t *testing.T) {
	needSlurm(t)
	libs, _ := filepath.Glob("/usr/lib/*/slurm-wlm/libslurmfull.so")
	if len(libs) != 1 {
		t.Fatalf("libslurmfull.so: %q", libs)
	}
	cmd := exec.Command("python3", "-", libs[0])
	cmd.Stdin, cmd.Stderr = strings.NewReader(optionsScript), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]Option{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		o := Option{Name: f[0], Arg: Argument(f[1][0] - '0')}
		if f[2] != "-" {
			o.Short = f[2][0]
		}
		theirs[o.Name] = o
	}
	ours := map[string]Option{}
	for name, o := range NewTable(clusterRelease(t)).long {
		ours[name] = Option{Name: o.Name, Arg: o.Arg, Short: o.Short}
	}
	if len(theirs) < 100 {
		t.Errorf("srun has only %d options", len(theirs))
	}
	for name := range maps.Keys(theirs) {
		if ours[name] != theirs[name] {
			t.Errorf("ours %+v, srun's %+v", ours[name], theirs[name])
		}
		delete(ours, name)
	}
	if len(ours) > 0 {
		t.Errorf("srun has not: %v", ours)
	}
}

// TestHelpIsInTable: the options that srun's help lists are in the table of some release; help also lists options that
// were removed long ago (--power in 26.05).
func TestHelpIsInTable(t *testing.T) {
	needSlurm(t)
	out, err := exec.Command("srun", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable("")
	found := 0
	for line := range strings.Lines(string(out)) {
		_, rest, ok := strings.Cut(line, "--")
		if !ok || !strings.HasPrefix(line, "  ") || strings.TrimLeft(line, " -BGabcdefghijklmnopqrstuvwxyzACDEFHIJKLMNOPQRSTUVWXYZ,") == "" {
			continue
		}
		name := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" =[\n", r) })[0]
		if strings.HasPrefix(strings.TrimSpace(line), "-") {
			found++
			if table.long[name] == nil {
				t.Errorf("--%s is not in the table", name)
			}
		}
	}
	if found < 90 {
		t.Errorf("found only %d options in srun's help", found)
	}
}
