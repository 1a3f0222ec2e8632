// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

func TestFindMissingMount(t *testing.T) {
	const mounted = "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:40 / /shared rw,relatime - nfs server:/shared rw\n"
	const table = "# a comment\n/dev/vda / ext4 defaults 0 1\nserver:/shared /shared nfs rw 0 0\nserver:/scratch /scratch/ nfs rw 0 0\nUUID=1 none swap sw 0 0\n"
	for path, want := range map[string]string{
		"/shared/singularity": "", "/shared": "", "/sharedelse/x": "",
		"/scratch": "/scratch", "/scratch/singularity": "/scratch", "/var/lib": "",
	} {
		if got := findMissingMount(path, table, mounted); got != want {
			t.Errorf("the missing mount of %s is %q, want %q", path, got, want)
		}
	}
}

// TestSharedAway: where the file system of the shared folder is not mounted, the mount point may belong to any user, and
// may not be there. doctor says that the file system is not mounted, and no check advises to make or own a folder.
func TestSharedAway(t *testing.T) {
	dir, lib := filepath.Join(t.TempDir(), "shared"), t.TempDir()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	folder, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	cluster := "mini"
	n := &node{cfg: &config.Config{Shared: dir}, known: LearntFacts{CheckShared: folder.Check, SharedCluster: folder.Mark().Cluster}, patience: time.Minute,
		slurm: func() (*Slurm, error) { return &Slurm{Cluster: cluster}, nil }}
	if f := checkShared(t.Context(), n); f.Level == Fail && os.Geteuid() == 0 {
		t.Fatalf("the folder is there: %+v", f)
	}
	cluster = "maxi"
	if f := checkShared(t.Context(), n); os.Geteuid() == 0 && (f.Level != Warn || !strings.Contains(f.Found, `it is marked for cluster "mini", and Slurm calls this one "maxi"`)) {
		t.Errorf("the folder of another cluster: %+v; want a warning", f)
	}
	for name, replace := range map[string]func() error{
		"a mount point of root's": func() error { return os.Mkdir(dir, 0o755) },
		"a mount point that all can write": func() error {
			return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777))
		},
		"no mount point": func() error { return nil },
	} {
		if err := errors.Join(os.RemoveAll(dir), replace()); err != nil {
			t.Fatal(err)
		}
		f := checkShared(t.Context(), n)
		want := fmt.Sprintf("the file system of %s is not mounted: %v", dir, shared.ErrUnmarked)
		if f.Level != Fail || f.Found != want || !strings.HasPrefix(f.Do, "mount the shared file system") {
			t.Errorf("%s: %+v; want a failure, found %q", name, f, want)
		}
		for _, f := range []Finding{f, checkStore(t.Context(), n), checkClock(t.Context(), n)} {
			if f.Level == OK || strings.Contains(f.Do, "mkdir") || strings.Contains(f.Do, "chown") || strings.Contains(f.Do, "chmod") || strings.Contains(f.Do, "proxyd makes") {
				t.Errorf("%s: %+v; want a problem whose remedy neither makes nor owns a folder", name, f)
			}
		}
	}
}
