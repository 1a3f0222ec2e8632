// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shimtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
)

// TestShownInodes: for a socket in the table, each function that reports an inode by a path reports the table's; for a
// file in the table, the file's own.
func TestShownInodes(t *testing.T) {
	buildTools(t)
	for kind, preload := range built.shims {
		t.Run(kind, func(t *testing.T) {
			r := newTrial(t, preload)
			socket, file := filepath.Join(r.dir, "socket"), filepath.Join(r.dir, "file")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			own := numberOf(t, file)
			checkInodes(t, r, map[string]uint64{"socket": numberOf(t, socket).Inode, "file": own.Inode})
			if _, err := r.journal.ShowInodes([]files.ShownInode{{File: numberOf(t, socket), Shown: 1 << 40}, {File: own, Shown: 7}}); err != nil {
				t.Fatal(err)
			}
			checkInodes(t, r, map[string]uint64{"socket": 1 << 40, "file": own.Inode})
		})
	}
}

func numberOf(t *testing.T, path string) files.FileNumber {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return files.FileNumber{Device: st.Dev, Inode: st.Ino}
}

// checkInodes compares the inodes that 13 functions show to a program with the wanted inodes, by file.
func checkInodes(t *testing.T, r *trial, want map[string]uint64) {
	t.Helper()
	out, err := r.runBehave(built.behave, "inodes")
	if err != nil {
		t.Fatalf("behave inodes: %v: %s", err, out)
	}
	lines := 0
	for line := range strings.Lines(out) {
		var name, call string
		var inode uint64
		if _, err := fmt.Sscan(line, &name, &inode, &call); err != nil {
			t.Fatalf("line %q of behave inodes: %v", line, err)
		}
		if lines++; inode != want[name] {
			t.Errorf("inode of %s: want %d, behave printed %s", name, want[name], line)
		}
	}
	if lines != 13*len(want) {
		t.Errorf("behave printed %d lines, want 13 for each file: %s", lines, out)
	}
}
