// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestDoctorWithoutDaemon: preemptd doctor says what is missing while no preemptd works.
func TestDoctorWithoutDaemon(t *testing.T) {
	srv := slurmresttest.Start(t, slurmresttest.Options{})
	scontrol := filepath.Join(t.TempDir(), "scontrol")
	if err := os.WriteFile(scontrol, []byte("#!/bin/sh\necho 'PreemptType = preempt/qos'\necho 'SlurmUser = slurm(1)'\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	sound := writeConfiguration(t, "")
	for name, tc := range map[string]struct {
		args, want, none []string
	}{
		"slurmrestd is not there": {
			[]string{"--config", sound, "--slurmrestd", "unix:/nowhere/slurmrestd.sock"},
			[]string{"FAIL  slurmrestd ", "/nowhere/slurmrestd.sock", "do:    start slurmrestd", "FAIL  nodes ", "ok    journal "}, nil,
		},
		"slurmrestd is there": {
			[]string{"--config", sound, "--slurmrestd", srv.Config().Address},
			[]string{"ok    configuration ", "ok    slurmrestd "}, []string{"FAIL  slurmrestd "},
		},
		"Slurm preempts": {
			[]string{"--config", writeConfiguration(t, "policies: [tiers]\npolicy: {folder: /nonexistent}\n"), "--slurmrestd", srv.Config().Address, "--scontrol", scontrol},
			[]string{"WARN  slurm: preemption ", "PreemptType=preempt/qos", "FAIL  policies ", "/nonexistent"}, nil,
		},
		"no place for the journal": {
			[]string{"--config", sound, "--slurmrestd", srv.Config().Address, "--journal", "/nowhere/preemptd.db"},
			[]string{"FAIL  journal ", "/nowhere"}, nil,
		},
		"a false configuration": {
			[]string{"--config", writeConfiguration(t, "colour: blue\n")}, []string{"FAIL  configuration ", "colour", "do:    preemptd config check"}, []string{"slurmrestd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := newCommand(append([]string{"doctor"}, tc.args...)...).CombinedOutput()
			if fails := strings.Contains(strings.Join(tc.want, ""), "FAIL"); (err != nil) != fails {
				t.Errorf("doctor ends with %v; want an error: %v", err, fails)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("doctor does not say %q, but\n%s", want, out)
				}
			}
			for _, none := range tc.none {
				if strings.Contains(string(out), none) {
					t.Errorf("doctor says %q:\n%s", none, out)
				}
			}
		})
	}
}
