// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestDoctorWithoutDaemon: preemptd doctor names missing things while no preemptd works.
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

// TestConfigurationInUse: doctor says which keys of the file preemptd has not read yet, how preemptd reads them, and what
// is wrong with a file with which preemptd would not start again.
func TestConfigurationInUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "preemptd.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	load := func() (*config.Config, error) { return config.Load(file, nil, nil) }
	started, err := load()
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{daemonOptions: daemonOptions{load: load, log: slog.New(slog.DiscardHandler)}, started: started}
	c.cfg.Store(started)
	const older = "preemptd works with an older configuration than the file has: "
	for _, tt := range []struct {
		name, text string
		reloads    bool
		level      rpc.Finding_Level
		found, do  string
	}{
		{"as read", "interval: 5s\n", false, rpc.Finding_OK, "as in the file", ""},
		{"changed", "interval: 7s\n", false, rpc.Finding_WARN, older + "interval", "systemctl reload preemptd"},
		{"changed, and read again", "interval: 7s\n", true, rpc.Finding_OK, "as in the file", ""},
		{"of the start", "interval: 8s\nproxyd_port: 7000\n", false, rpc.Finding_WARN, older + "proxyd_port, interval", "systemctl restart preemptd: actions under way go on after that"},
		{"of the start, and read again", "interval: 8s\nproxyd_port: 7000\n", true, rpc.Finding_WARN, older + "proxyd_port", "systemctl restart preemptd: actions under way go on after that"},
		{"two mistakes", "intervall: 8s\nmax_actions: many\n", false, rpc.Finding_FAIL,
			file + ": intervall: no such key; did you mean interval?; " + file + `: max_actions: "many": want a number from 1 to 10000; preemptd works with what it has read before, and will not start again`,
			"mend the file until `preemptd config check` is content, then systemctl reload preemptd"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.reloads {
			c.reloadConfig()
		}
		if f := c.checkConfiguration(); f.GetLevel() != tt.level || f.GetFound() != tt.found || f.GetDo() != tt.do {
			t.Errorf("%s: %v; want %s, found %q, do %q", tt.name, f, tt.level, tt.found, tt.do)
		}
	}
}
