// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// TestRemovedAndLinked: a file that has lost its name is in the way if the file has another name, and lies in no folder of
// the capsule's own.
func TestRemovedAndLinked(t *testing.T) {
	home, err := os.MkdirTemp(".", "linked-") // not below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	home, err = filepath.Abs(home)
	if err != nil {
		t.Fatal(err)
	}
	table, err := mounts.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	link := func(name string) error { return os.Link(name, name+".other") }
	for _, c := range []struct {
		name, folder string
		then         []func(string) error
		want         bool
	}{
		{"open", home, nil, false},
		{"removed", home, []func(string) error{os.Remove}, false},
		{"linked", home, []func(string) error{link}, false},
		{"both", home, []func(string) error{link, os.Remove}, true},
		{"called (deleted)", home, []func(string) error{link}, false},
		{"in a folder of the capsule", "/tmp", []func(string) error{link, os.Remove}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(c.folder, strings.ReplaceAll(c.name, "in a", fmt.Sprint(os.Getpid())))
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close(); _ = os.Remove(name); _ = os.Remove(name + ".other") })
			for _, act := range c.then {
				if err := act(name); err != nil {
					t.Fatal(err)
				}
			}
			path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
			kernels, err := os.Readlink(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := isRemovedAndLinked(os.Getpid(), table, path, kernels); got != c.want {
				t.Errorf("isRemovedAndLinked(%s) = %v", kernels, got)
			}
		})
	}
}
