// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
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
		file           *os.File
		kind, noColour string
		moves, colours bool
	}{
		{terminal, "xterm", "", true, true}, {terminal, "", "", true, true}, {terminal, "dumb", "", false, false},
		{terminal, "xterm", "1", true, false}, {out, "xterm", "", false, false},
	} {
		t.Setenv("TERM", c.kind)
		t.Setenv("NO_COLOR", c.noColour)
		if got := movesCursor(c.file); got != c.moves {
			t.Errorf("%s, TERM=%s: moves the cursor: %v", c.file.Name(), c.kind, got)
		}
		if got := wantsColours(c.file); got != c.colours {
			t.Errorf("%s, TERM=%s, NO_COLOR=%s: colours: %v", c.file.Name(), c.kind, c.noColour, got)
		}
	}
}

// TestColours: the words that say how a thing is have colours, and stand in the same column with and without.
func TestColours(t *testing.T) {
	const plain = "node n1: proxyd 1\n" +
		"  ok    clock               in step\n" +
		"  FAIL  shared folder       gone\n                            needs: a folder\n                            do:    mount\n"
	reply := &rpc.DoctorReply{Node: "n1", Version: "1", Findings: []*rpc.Finding{
		{Level: rpc.Finding_OK, Name: "clock", Found: "in step"},
		{Level: rpc.Finding_FAIL, Name: "shared folder", Found: "gone", Needs: "a folder", Do: "mount"},
	}}
	coloured := strings.NewReplacer("ok  ", "\x1b[32mok  \x1b[0m", "FAIL", "\x1b[31mFAIL\x1b[0m").Replace(plain)
	for colours, want := range map[bool]string{false: plain, true: coloured} {
		var said strings.Builder
		doctorCommand{&app{stdout: &said, colours: colours}}.printFindings(reply, true)
		if said.String() != want {
			t.Errorf("printed %q, want %q", said.String(), want)
		}
	}
}
