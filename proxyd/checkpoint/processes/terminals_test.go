// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTerminals: a terminal is a program's own if the program holds both sides, and
// the terminal is the capsule's.
func TestTerminals(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("SKIP: needs pseudo terminals: ", err)
	}
	defer master.Close()
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	link := fmt.Sprintf("/dev/pts/%d", number)
	slave, err := os.OpenFile(link, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	descriptor := fmt.Sprintf("/proc/self/fd/%d", slave.Fd())

	self := os.Getpid()
	with, without := terminalsOf(self, []int{self}), terminalsOf(self, nil)
	elsewhere := with
	elsewhere.device++
	for name, c := range map[string]struct {
		terminals  terminals
		descriptor string
		link       string
		want       bool
	}{
		"both sides":           {with, descriptor, link, true},
		"master":               {without, fmt.Sprintf("/proc/self/fd/%d", master.Fd()), "/dev/pts/ptmx", true},
		"slave alone":          {without, descriptor, link, false},
		"of another /dev/pts":  {elsewhere, descriptor, link, false},
		"not a terminal":       {with, descriptor, "/dev/null", false},
		"another of the same":  {with, descriptor, link + "0", false},
		"descriptor is closed": {with, "/proc/self/fd/99999", link, false},
	} {
		if got := c.terminals.isOwn(c.descriptor, c.link); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
