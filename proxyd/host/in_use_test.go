// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestKeyInUse: the file of the key may have been replaced, or have gone, since the daemon's start. The fingerprint, by
// which nodes are compared, is that of the key with which the daemon works.
func TestKeyInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	n := &node{cfg: &config.Config{KeyFile: path}}
	n.known.ReadKey = func() (string, error) {
		key, err := store.KeyFile(path)
		return key.Fingerprint(), err
	}
	makeKey := func() string {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), store.GenerateKey(path)); err != nil {
			t.Fatal(err)
		}
		key, err := store.KeyFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return key.Fingerprint()
	}
	check := func(when string, level Level, fingerprint string, found, do []string) {
		t.Helper()
		f := checkKey(t.Context(), n)
		if f.Level != level || f.Fingerprint != fingerprint {
			t.Errorf("%s: %s, fingerprint %q; want %s, %q", when, f.Level, f.Fingerprint, level, fingerprint)
		}
		for _, want := range found {
			if !strings.Contains(f.Found, want) {
				t.Errorf("%s: found %q, without %q", when, f.Found, want)
			}
		}
		for _, want := range do {
			if !strings.Contains(f.Do, want) {
				t.Errorf("%s: do %q, without %q", when, f.Do, want)
			}
		}
	}
	first := makeKey()
	n.known.KeyInUse = first
	check("as read", OK, first, []string{"there, " + first}, nil)
	second := makeKey()
	if second == first {
		t.Fatal("two keys have the same fingerprint")
	}
	check("replaced", Fail, first, []string{"works with " + first, "the file was replaced", second}, []string{"systemctl restart proxyd", "put the old key back"})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("gone", Fail, first, []string{"none", "works with " + first}, []string{"copy it from another node"})
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("short", Fail, first, []string{"5 bytes, want 32"}, []string{"copy the cluster's key"})
}

// TestConfigurationInUse: the file of the configuration may have changed since the daemon's start, or may not be
// accepted at the daemon's next start.
func TestConfigurationInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proxyd.yaml")
	load := func() (*config.Config, error) { return config.Load(path, nil) }
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("shared: /shared\n")
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: cfg, known: LearntFacts{LoadConfig: load}}
	for _, tt := range []struct {
		name, text string
		level      Level
		found, do  string
	}{
		{"as read", "shared: /shared\n", OK, cfg.Fingerprint(), ""},
		{"a comment more", "shared: /shared # ours\nkeep: 2\n", OK, cfg.Fingerprint(), ""},
		{"changed", "shared: /shared\nkeep: 5\nlog: {level: debug}\n", Warn,
			"proxyd works with an older configuration than the file has: keep, log.level", "systemctl restart proxyd: jobs run on"},
		{"a staging folder that is not there", "shared: /shared\nstaging: {folder: /nowhere/stage}\n", Fail,
			"proxyd works with an older configuration than the file has: staging.folder; proxyd would not start with it: stat /nowhere/stage: no such file or directory",
			"have root own /nowhere/stage with mode 700, on a disk of this node, then systemctl restart proxyd: jobs run on"},
		{"two mistakes", "shared: /shared\nkep: 5\ninterval: 3\n", Fail,
			path + ": kep: no such key; did you mean keep?; " + path + `: interval: "3": want a time as in 30s, 10m, 2h or 7d, or 0, or auto; ` +
				"proxyd works with what it read when it started, and will not start again",
			"mend the file until `proxyd config check` is content, then systemctl restart proxyd: jobs run on"},
	} {
		write(tt.text)
		f := checkConfiguration(t.Context(), n)
		if f.Level != tt.level || f.Found != tt.found || f.Do != tt.do || f.Fingerprint != cfg.Fingerprint() {
			t.Errorf("%s: %+v; want %s, found %q, do %q", tt.name, f, tt.level, tt.found, tt.do)
		}
	}
}
