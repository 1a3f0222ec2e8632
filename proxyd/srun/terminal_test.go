// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// otherEnd is a stand-in's script, which does what sing-terminal does (slurm-spank/terminal.h): it shows the window, what
// is typed next, and the window after that.
const otherEnd = `[ "$1" = --input=none ] || exit 99
IFS=: read -r address port secret <<< "$SINGULARITY_SLURM_TERMINAL"
exec 3<>"/dev/tcp/$address/$port"
printf '\0\0\0 \1%s' "$secret" >&3
echo window $(head -c 13 <&3 | od -An -tx1) >&3
echo typed $(head -c 9 <&3 | od -An -tx1) >&3
echo window $(head -c 13 <&3 | od -An -tx1) >&3
seq 20000 >&3
exit 6`

// protectedEnv is the environment of a protected job.
var protectedEnv = []string{"PATH=/usr/bin:/bin", forwardedOptions + "singularity="}

// writeScript writes a program where the user can run it, and returns its path.
func writeScript(t *testing.T, name, script string) string {
	t.Helper()
	needRoot(t)
	path := filepath.Join(tools.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// openTerminal makes a terminal with a window of 33 rows and 77 columns.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = slave.Chown(user, group)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}

// modeOf returns the mode of a terminal.
func modeOf(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

// TestTerminal: sing-srun passes the keys and the window of its terminal to the process that has the secret, shows all
// that comes from there, and leaves the terminal as it was.
func TestTerminal(t *testing.T) {
	needHangup(t)
	s := newServer(t, writeScript(t, "other-end", otherEnd))
	master, slave := openTerminal(t)
	before := modeOf(t, slave)
	shown := make(chan string, 1000)
	go func() {
		defer close(shown)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			shown <- string(buf[:n])
		}
	}()
	all := ""
	waitForText := func(want string) {
		t.Helper()
		for deadline := time.After(30 * time.Second); !strings.Contains(all, want); {
			select {
			case more := <-shown:
				all += more
			case <-deadline:
				t.Fatalf("the terminal has not shown %q, but\n%s", want, all)
			}
		}
	}
	cmd := caller{args: []string{"--pty", "a"}, env: protectedEnv}.newCommand()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.expectRequest("srun")
	waitForText("window 00 00 00 08 20 00 00 00 21 00 00 00 4d\n")
	if raw := modeOf(t, slave); raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("the terminal's mode while srun runs: %+v", raw)
	}
	if _, err := master.WriteString("a\x03\x04b"); err != nil {
		t.Fatal(err)
	}
	waitForText("typed 00 00 00 04 21 61 03 04 62\n")
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 90}); err != nil {
		t.Fatal(err)
	}
	waitForText("window 00 00 00 08 20 00 00 00 28 00 00 00 5a\n")
	waitForText("\n20000\n")
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 6 {
		t.Errorf("exit code of sing-srun = %d, want 6", exitCodeOf(how))
	}
	if after := modeOf(t, slave); after != before {
		t.Errorf("the terminal's mode is %+v afterwards, was %+v", after, before)
	}
}

// TestTerminalStranger: without the secret nothing is shown, and the terminal's mode stays.
func TestTerminalStranger(t *testing.T) {
	needHangup(t)
	script := `IFS=: read -r address port secret <<< "$SINGULARITY_SLURM_TERMINAL"
for turn in $(seq 20); do
	exec 3<>"/dev/tcp/$address/$port"
	printf '\0\0\0 \1%032d' 0 >&3
	echo forged >&3
done 2>/dev/null
exec 4<>"/dev/tcp/$address/$port" 5<>"/dev/tcp/$address/$port"
printf '\0\0\0 \1%s' "$secret" >&5
head -c 13 <&5 >/dev/null
echo genuine >&5`
	s := newServer(t, writeScript(t, "stranger", script))
	master, slave := openTerminal(t)
	cmd := caller{args: []string{"--pty", "a"}, env: protectedEnv}.newCommand()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.expectRequest("srun")
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 0 {
		t.Errorf("exit code of sing-srun = %d, want 0", exitCodeOf(how))
	}
	slave.Close()
	var all strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		all.Write(buf[:n])
		if err != nil { // EIO: no process has the terminal any more
			break
		}
	}
	if got := all.String(); !strings.Contains(got, "genuine") || strings.Contains(got, "forged") {
		t.Errorf("shown %q", got)
	}
}

// TestNoTerminal: where srun is not typed on a terminal, --pty is disregarded, and srun says so.
func TestNoTerminal(t *testing.T) {
	s := newServer(t, standIn(t))
	out, errs, how := caller{args: []string{"--pty", "echo told ${SINGULARITY_SLURM_TERMINAL:-nothing}; exit 4"}, env: protectedEnv, in: strings.NewReader("")}.runCall(t)
	s.expectRequest("srun")
	if out != "told nothing\n" || errs != noTerminalNotice || exitCodeOf(how) != 4 {
		t.Errorf("got %q, %q, exit code %d", out, errs, exitCodeOf(how))
	}
}
