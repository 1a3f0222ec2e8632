// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTerminals: a terminal is a program's own if the program holds both sides, and
// the terminal is the capsule's.
func TestTerminals(t *testing.T) {
	master, slave := openTerminal(t)
	defer master.Close()
	defer slave.Close()
	link := slave.Name()
	descriptor := fmt.Sprintf("/proc/self/fd/%d", slave.Fd())

	self := os.Getpid()
	with, without := readTerminals(t.Context(), self, []int{self}), readTerminals(t.Context(), self, nil)
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

// TestHasTerminal: the terminal of a process is found also if the name of its program looks like fields of
// /proc/PID/stat.
func TestHasTerminal(t *testing.T) {
	master, slave := openTerminal(t)
	defer master.Close()
	defer slave.Close()
	program := t.TempDir() + "/a) R 1 (b"
	if err := os.Symlink("/bin/sleep", program); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		attr *syscall.SysProcAttr
		want bool
	}{
		"on a terminal": {&syscall.SysProcAttr{Setsid: true, Setctty: true}, true},
		"without one":   {&syscall.SysProcAttr{Setsid: true}, false},
	} {
		cmd := exec.Command(program, "1000")
		cmd.Stdin, cmd.SysProcAttr = slave, c.attr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got, err := HasTerminal(cmd.Process.Pid)
		parent, parentErr := ParentPID(cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil || got != c.want {
			t.Errorf("%s: HasTerminal = %v, %v", name, got, err)
		}
		if parentErr != nil || parent != os.Getpid() {
			t.Errorf("%s: parent %d, %v", name, parent, parentErr)
		}
	}
}

// openTerminal makes a terminal and returns both ends.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("SKIP: needs pseudo terminals: ", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
