// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// TestWarnOfInterpretation: the daemon's log says why software GPUs interpret kernels, where the site has not chosen it.
func TestWarnOfInterpretation(t *testing.T) {
	none := errors.New("no AVX-512")
	for _, tc := range []struct {
		name    string
		devices config.Devices
		check   error
		says    string
	}{
		{"none", config.Devices{Kind: "soft", Kernels: "compiled"}, none, "no AVX-512"},
		{"machine code", config.Devices{Kind: "soft", Kernels: "compiled"}, nil, ""},
		{"chosen", config.Devices{Kind: "soft", Kernels: "interpreted"}, none, ""},
		{"real GPUs", config.Devices{Kind: "cuda", Kernels: "compiled"}, none, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var text bytes.Buffer
			warnOfInterpretation(tc.devices, func() error { return tc.check }, slog.New(slog.NewTextHandler(&text, nil)))
			if got := text.String(); (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("the log is %q, want %q in it", got, tc.says)
			}
		})
	}
}

// TestCodeCache: where machine code is kept, and where not. The device server of a job never keeps any.
func TestCodeCache(t *testing.T) {
	home := t.TempDir()
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	byHome := filepath.Join(home, ".cache", "singularity-slurm", "code")
	for _, tc := range []struct {
		name                   string
		options                deviceOptions
		home, xdg, folder, err string
	}{
		{name: "home", options: deviceOptions{gate: -1}, home: home, folder: byHome},
		{name: "cache folder", options: deviceOptions{gate: -1}, home: home, xdg: filepath.Join(home, "x"), folder: filepath.Join(home, "x", "singularity-slurm", "code")},
		{name: "named", options: deviceOptions{gate: -1, code: filepath.Join(home, "named")}, folder: filepath.Join(home, "named")},
		{name: "off", options: deviceOptions{gate: -1, code: codeOff}, home: home},
		{name: "interpreted", options: deviceOptions{gate: -1, kernels: softgpu.InterpretedKernels}, home: home},
		{name: "no home", options: deviceOptions{gate: -1}},
		{name: "home is missing", options: deviceOptions{gate: -1}, home: filepath.Join(home, "missing")},
		{name: "of a job", options: deviceOptions{gate: 3}, home: home},
		{name: "of a job, named", options: deviceOptions{gate: 3, code: filepath.Join(home, "job")}, home: home},
		{name: "named, open to others", options: deviceOptions{gate: -1, code: open}, err: "its mode is 0755"},
		{name: "named, no folder", options: deviceOptions{gate: -1, code: "/dev/null"}, err: "/dev/null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HOME", tc.home)
			t.Setenv("XDG_CACHE_HOME", tc.xdg)
			_ = os.RemoveAll(byHome)
			got, err := tc.options.openCodeCache()
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, should say %q", err, tc.err)
			}
			if (got != nil) != (tc.folder != "") {
				t.Fatalf("a cache: %v, should be in %q", got != nil, tc.folder)
			}
			if st, err := os.Stat(tc.folder); tc.folder != "" && (err != nil || st.Mode().Perm() != 0o700) {
				t.Errorf("%s: %v, %v", tc.folder, st, err)
			}
			if _, err := os.Stat(byHome); (err == nil) != (tc.folder == byHome) {
				t.Errorf("%s: %v", byHome, err)
			}
		})
	}
}
