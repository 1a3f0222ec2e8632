// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestBuildIDWhileRenaming: a link with ".." on the way can be followed while other processes
// rename folders, on the way or elsewhere.
func TestBuildIDWhileRenaming(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(filepath.Join(dir, "a"), program)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "a/link")
	if err := os.Symlink(up, link); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for _, n := range []string{"x", "y"} {
		if err := os.Mkdir(filepath.Join(other, n), 0o700); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for at := n; ; {
				select {
				case <-stop:
					return
				default:
				}
				to := at + "'"
				if len(to) > 3 {
					to = n
				}
				if err := os.Rename(filepath.Join(other, at), filepath.Join(other, to)); err != nil {
					t.Error(err)
					return
				}
				at = to
			}
		})
	}
	for range 3000 {
		if _, err := buildIDIn("/", link); err != nil && !errors.Is(err, ErrNoBuildID) { // Go links no build id into this program
			t.Fatal(err)
		}
	}
}
