// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// TestSilentFolders has doctor look at folders of a file server that does not answer: the checks of these folders say so, the
// others are as always, and a second look, made while the first still hangs, says the same.
func TestSilentFolders(t *testing.T) {
	served := mountstest.Serve(t, 0)
	served.SilenceAll()
	cfg := &config.Config{Shared: served.Folder, KeyFile: filepath.Join(t.TempDir(), "key"), NodeName: "n1",
		Scontrol: "/nowhere/scontrol", MungeSocket: "/nowhere/munge", KillWaitMargin: 5 * time.Second}
	cfg.Staging.Folder = served.Folder
	slurm := &Slurm{Version: "26.05", KillWait: 30 * time.Second, SpoolDir: served.Folder}
	n := &node{cfg: cfg, known: LearntFacts{Measure: true}, coder: munge.Programs{Socket: cfg.MungeSocket}, patience: 100 * time.Millisecond,
		slurm: func() (*Slurm, error) { return slurm, nil }}
	for range 2 {
		byName := make(map[string]Finding)
		for _, f := range n.runChecks(t.Context()) {
			byName[f.Name] = f
		}
		for name, level := range map[string]Level{
			"shared folder": Fail, "store": Fail, "staging": Fail, "clock": Warn, "slurm: killwait": Warn, "slurm: spool": Warn,
		} {
			f := byName[name]
			if f.Level != level || !strings.HasPrefix(f.Found, served.Folder) || !strings.Contains(f.Found, "does not answer within 100ms") ||
				f.Needs == "" || !strings.Contains(f.Do, "file server") {
				t.Errorf("%s: %+v; want a finding that names the folder and the file server", name, f)
			}
		}
		if f := byName["key"]; f.Found != "none" {
			t.Errorf("finding key = %+v, want Found to be none", f)
		}
		if len(byName) != len(checks) {
			t.Errorf("%d findings of %d checks", len(byName), len(checks))
		}
	}
}

// TestLooksOfOneFolder has a check begin no second look while the first hangs, and look again when that has ended.
func TestLooksOfOneFolder(t *testing.T) {
	n := &node{patience: time.Millisecond}
	f := Finding{Name: t.Name()}
	hang := make(chan struct{})
	if got := n.checkFolder(f, Fail, "/x", func() Finding { <-hang; return f.withOK("late") }); got.Level != Fail {
		t.Errorf("finding while the look hangs = %+v, want a failure", got)
	}
	if got := n.checkFolder(f, Fail, "/x", func() Finding { return f.withOK("second") }); got.Level != Fail {
		t.Errorf("finding of a second look while the first hangs = %+v, want a failure", got)
	}
	n.patience = time.Minute
	close(hang)
	if got := n.checkFolder(f, Fail, "/x", func() Finding { return f.withOK("third") }); got.Found != "third" {
		t.Errorf("finding after the look has ended = %+v", got)
	}
}

// TestKillWaitOfMeasuredNode: doctor writes no file where the time of a capture is known.
func TestKillWaitOfMeasuredNode(t *testing.T) {
	n := &node{cfg: &config.Config{Shared: "/nowhere"}, known: LearntFacts{Capture: time.Second},
		slurm: func() (*Slurm, error) { return &Slurm{KillWait: 30 * time.Second}, nil }} // a look would have no time
	if f := checkKillWait(t.Context(), n); f.Level != OK || f.Found != "30s; capturing a job took 1s at most" {
		t.Errorf("KillWait finding = %+v; want OK with the measured time", f)
	}
}

// TestStoreOfItsOwn has doctor look at a store that is another file system than the shared folder.
func TestStoreOfItsOwn(t *testing.T) {
	shared := t.TempDir()
	store := filepath.Join(shared, "store")
	slurm := &Slurm{KillWait: 30 * time.Second}
	n := &node{cfg: &config.Config{Shared: shared}, known: LearntFacts{Measure: true}, patience: time.Minute, slurm: func() (*Slurm, error) { return slurm, nil }}
	if f := checkStore(t.Context(), n); f.Level != Fail || !strings.Contains(f.Do, "mount the store's file system") {
		t.Errorf("store finding without a store = %+v, want a failure", f)
	}
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	if f := checkStore(t.Context(), n); f.Level != OK || f.Found != "in the shared folder" {
		t.Errorf("finding of a store in the shared folder = %+v", f)
	}
	replaceStore := func(folder string) {
		t.Helper()
		if err := errors.Join(os.Remove(store), os.Symlink(folder, store)); err != nil {
			t.Fatal(err)
		}
	}
	memory, err := os.MkdirTemp("/dev/shm", "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	replaceStore(memory)
	if f := checkStore(t.Context(), n); f.Level != Warn || !strings.HasPrefix(f.Found, "tmpfs, ") {
		t.Errorf("finding of a store in another file system = %+v", f)
	}
	served := mountstest.Serve(t, 0)
	served.SilenceAll()
	replaceStore(served.Folder)
	n.patience = 100 * time.Millisecond
	for _, f := range []Finding{checkStore(t.Context(), n), checkKillWait(t.Context(), n)} {
		if f.Level == OK || f.Found != store+": its file system does not answer within 100ms" {
			t.Errorf("a store with a silent server: %+v", f)
		}
	}
}
