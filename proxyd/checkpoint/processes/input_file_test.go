// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargeInputs: a file of which a process has more to read than a warden's queue takes is found, and no other file
// of the process.
func TestLargeInputs(t *testing.T) {
	for _, k := range []struct {
		name     string
		size, at int64
		mode     int
		want     string // "": no file is found
	}{
		{"large", 200 << 20, 0, os.O_RDONLY, `big" itself (--input), and has more than 192 MiB`},
		{"the rest is large", 200 << 20, 100 << 20, os.O_RDONLY, `more than 64 MiB`},
		{"nearly read", 200 << 20, 136 << 20, os.O_RDONLY, ""},
		{"small", 64 << 20, 0, os.O_RDONLY, ""},
		{"beyond its end", 1 << 20, 1 << 40, os.O_RDONLY, ""},
		{"written", 200 << 20, 0, os.O_RDWR, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "big")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, k.size); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, k.mode, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Seek(k.at, 0); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sleep", "1000")
			cmd.ExtraFiles = []*os.File{f}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			found := FindLargeInputs([]int{cmd.Process.Pid, 1 << 30})
			if k.want == "" && len(found) > 0 {
				t.Errorf("FindLargeInputs = %v, want no file", found)
			}
			if k.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), k.want)) {
				t.Errorf("found %v, want %s", found, k.want)
			}
		})
	}
}
