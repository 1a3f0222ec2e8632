// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMovesCursor(t *testing.T) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	terminal := os.NewFile(uintptr(fd), "terminal")
	defer terminal.Close()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	for _, c := range []struct {
		file *os.File
		kind string
		want bool
	}{{terminal, "xterm", true}, {terminal, "", true}, {terminal, "dumb", false}, {out, "xterm", false}} {
		t.Setenv("TERM", c.kind)
		if got := movesCursor(c.file); got != c.want {
			t.Errorf("%s, TERM=%s: %v", c.file.Name(), c.kind, got)
		}
	}
}
