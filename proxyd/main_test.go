// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// partVariable makes the test program run as proxyd.
const partVariable = "PROXYD_TEST_PART"

func TestMain(m *testing.M) {
	if os.Getenv(partVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestPlaceholders: --help shows a word for the value of an option. A part in backquotes of an option's text is taken
// for that word.
func TestPlaceholders(t *testing.T) {
	seen := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			seen++
			if name, _ := pflag.UnquoteUsage(f); strings.ContainsAny(name, " -") {
				t.Errorf("%s: --%s shows %q in place of its value", c.CommandPath(), f.Name, name)
			}
		})
		for _, below := range c.Commands() {
			check(below)
		}
	}
	check(newCommand())
	if seen < 10 {
		t.Errorf("only %d options were found", seen)
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	empty, sound, wrong := write("empty.yaml", ""), write("sound.yaml", "shared: /shared\n"), write("wrong.yaml", "shared: /shared\nkep: 3\ninterval: 30\n")
	relay, wrongRelay := write("relay.yaml", "per_user: 10\n"), write("wrong-relay.yaml", "alow: 10.0.0.0/8\nper_user: many\n")
	for _, tt := range []struct {
		args     string
		code     int
		out, err string // beginnings
	}{
		{"", 0, "Captures and restores", ""},
		{"--help", 0, "Captures and restores", ""},
		{"--version", 0, "proxyd version ", ""},
		{"foo", 2, "", `proxyd: unknown command "foo"; proxyd --help says what it takes`},
		{"demon", 2, "", `proxyd: unknown command "demon"; `},
		{"--colour", 2, "", "proxyd: unknown flag: --colour; "},
		{"daemon now", 2, "", `proxyd: daemon: unexpected argument "now"; `},
		{"config --config " + empty, 0, "# ", empty + " is empty: each key has its default. "},
		{"relay config --config " + empty, 0, "# ", empty + " is empty: each key has its default. "},
		{"config check --config " + sound, 0, "the configuration is fine\n", ""},
		{"config check --config " + wrong, 1, "", "proxyd: configuration: " + wrong + ": kep: no such key; did you mean keep?\n" + wrong + `: interval: "30": want a time as in 30s, 10m, 2h or 7d, or 0, or auto`},
		{"config check --config " + empty, 1, "", empty + " is empty: each key has its default. "},
		{"config check --config /nowhere", 1, "", "proxyd: configuration: open /nowhere: no such file or directory"},
		{"relay config check --config " + relay, 0, "the configuration is fine\n", ""},
		{"relay config check --config " + wrongRelay, 1, "", "proxyd: configuration: " + wrongRelay + ": alow: no such key; did you mean allow?\n" + wrongRelay + `: per_user: "many": want a number from `},
		{"config --x", 2, "", "proxyd: unknown flag: --x; "},
		{"key", 2, "", "proxyd: key: no FILE is named; "},
		{"key a b", 2, "", `proxyd: key: unexpected argument "b"; `},
		{"key " + key, 0, "", ""},
		{"key " + key, 1, "", "proxyd: key: " + key + " is there, and stays: with another key all checkpoints made so far are refused (docs/install.md, The key)"},
		{"daemon --config /nowhere", 1, "", "proxyd: "},
		{"run", 2, "", "proxyd: run: no PROGRAM is named; "},
		{"run --help", 0, "Run a program of the CUDA driver", ""},
		{"run --cuda", 2, "", "proxyd: run: no PROGRAM is named; "},
		{"device --kind hard --socket /nowhere/x", 2, "", `proxyd: device: --kind "hard": it is soft or cuda; `},
		{"run --soft 0 -- true", 2, "", "proxyd: run: --soft 0: it is from 1 to 16; proxyd run --help says what it takes"},
		{"run --softer -- true", 2, "", "proxyd: unknown flag: --softer; proxyd run --help says what it takes"},
		{"config check all", 2, "", `proxyd: check: unexpected argument "all"; proxyd config check --help says what it takes`},
		{"run --soft 2 --on 3 -- true", 2, "", "proxyd: run: --on 3: it is from 1 to the 2 that share them; "},
		{"run --soft 2 --on 1 --order 0,1 -- true", 2, "", "proxyd: run: --order: there is no device 1; "},
		{"run --soft two -- true", 2, "", "proxyd: invalid argument"},
		{"run --memory much -- true", 2, "", `proxyd: run: --memory "much": it is a size from 2M to 1T, as 512M or 16G; `},
		{"run --memory 1K -- true", 2, "", `proxyd: run: --memory "1K": it is a size from 2M to 1T, as 512M or 16G; `},
		{"run --rung ladder -- true", 2, "", `proxyd: run: --rung "ladder": it is splice, alias or swap; `},
		{"run --kernels fast -- true", 2, "", `proxyd: run: --kernels "fast": it is compiled or interpreted; `},
		{"run --blas fast -- true", 2, "", `proxyd: run: --blas "fast": it is vendor or native; `},
		{"run --cuda --blas native -- true", 2, "", "proxyd: run: --blas native: real GPUs have the vendor's cuBLAS alone; "},
		{"run --capability 7.5 -- true", 2, "", `proxyd: run: --capability: "7.5" is not 8.0, 8.9, 9.0 or 10.0; `},
		{"run --addresses 8T -- true", 2, "", `proxyd: run: --addresses "8T": it is two multiples of 1T below 128T in all, as 8T+24T; `},
		{"run --addresses 8T+3G -- true", 2, "", `proxyd: run: --addresses "8T+3G": it is two multiples of 1T`},
		{"run --addresses 8T+121T -- true", 2, "", `proxyd: run: --addresses "8T+121T": it is two multiples of 1T`},
		{"run --memory 0 -- true", 2, "", `proxyd: run: --memory "0": it is a size from 2M to 1T, as 512M or 16G; `},
		{"run --shim /nowhere -- true", 1, "", "proxyd: no libsingshim-device.so at /nowhere; --shim names one"},
		{"device", 2, "", "proxyd: device: --socket names no file; "},
	} {
		t.Run(tt.args, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", strings.Fields(tt.args)...)
			cmd.Env = append(os.Environ(), partVariable+"=1")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // the test looks at the exit code
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !beginsWith(out.String(), tt.out) || !beginsWith(errs.String(), tt.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, tt.code, out.String(), errs.String())
			}
		})
	}
}

// beginsWith says whether s begins so; with an empty beginning, s must be empty.
func beginsWith(s, with string) bool {
	return strings.HasPrefix(s, with) && (with != "" || s == "")
}
