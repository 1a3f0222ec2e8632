// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// idleStep is a stand-in's script: it shows the place of sing-srun, and ends when a line comes through a named pipe.
const idleStep = `echo "place $SINGULARITY_SLURM_TERMINAL" >&2
read -r line < %s
exit 6`

// idleCall is a sing-srun with --pty, of a step that does nothing. The test does what sing-terminal does.
type idleCall struct {
	t              *testing.T
	cmd            *exec.Cmd
	end            *os.File // of the named pipe
	address, proof string   // proof is the frame with the secret
}

// startIdleCall starts sing-srun with its input on a terminal and its output in stdout, if that is not nil.
func startIdleCall(t *testing.T, stdout *os.File) *idleCall {
	t.Helper()
	needHangup(t)
	needRoot(t)
	fifo := filepath.Join(tools.dir, "end")
	os.Remove(fifo)
	err := unix.Mkfifo(fifo, 0o600)
	if err == nil {
		err = os.Chown(fifo, user, group)
	}
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, writeScript(t, "idle-step", fmt.Sprintf(idleStep, fifo)))
	_, slave := openTerminal(t)
	c := &idleCall{t: t, end: end, cmd: caller{args: []string{"--pty", "a"}, env: protectedEnv}.newCommand()}
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, errW
	if stdout != nil {
		c.cmd.Stdout = stdout
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		end.Close()
		errR.Close()
	})
	errW.Close()
	s.expectRequest("srun")
	if err := errR.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var place string
	if _, err := fmt.Fscanf(errR, "place %s\n", &place); err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(place, ":")
	c.address, c.proof = place[:at], "\x00\x00\x00 \x01"+place[at+1:]
	return c
}

// connectWith connects to sing-srun and sends bytes.
func (c *idleCall) connectWith(bytes string) net.Conn {
	c.t.Helper()
	conn, err := net.Dial("tcp4", c.address) //nolint:noctx // a test
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, bytes); err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// connectTerminal connects as sing-terminal, and returns when sing-srun has sent the window.
func (c *idleCall) connectTerminal() net.Conn {
	c.t.Helper()
	conn := c.connectWith(c.proof)
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 13)); err != nil {
		c.t.Fatal("no window has come: ", err)
	}
	return conn
}

// endStep has the step end.
func (c *idleCall) endStep() {
	c.t.Helper()
	if _, err := c.end.WriteString("end\n"); err != nil {
		c.t.Fatal(err)
	}
}

// expectEnd waits for sing-srun's end with the exit code of the step.
func (c *idleCall) expectEnd() {
	c.t.Helper()
	if how := waitForCommand(c.t, c.cmd); exitCodeOf(how) != 6 {
		c.t.Errorf("exit code of sing-srun = %d, want 6", exitCodeOf(how))
	}
}

// expectClosed tells whether the other end of a connection is closed within a time.
func expectClosed(t *testing.T, conn net.Conn, limit time.Duration, what string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%s: read %d bytes, %v, want the end of file", what, n, err)
	}
}

// TestTerminalStrangersLeave: connections without the secret do not last, because CRIU captures none: neither before
// sing-terminal has connected nor while it is connected.
func TestTerminalStrangersLeave(t *testing.T) {
	c := startIdleCall(t, nil)
	expectClosed(t, c.connectWith("\x00"), 30*time.Second, "a silent connection")
	before := c.connectWith("")
	terminal := c.connectTerminal()
	expectClosed(t, before, 3*time.Second, "a connection from before sing-terminal's") // was closed before the window came
	for range 3 {
		expectClosed(t, c.connectWith(""), 30*time.Second, "a connection beside sing-terminal's")
	}
	terminal.Close()
	c.connectTerminal().Close()
	c.endStep()
	c.expectEnd()
}

func isPresent(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// setDescriptorLimit sets the soft limit of a process of the user's.
func setDescriptorLimit(t *testing.T, pid, limit int) {
	t.Helper()
	cmd := exec.Command("prlimit", fmt.Sprintf("--nofile=%d:", limit), "--pid", fmt.Sprint(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: group}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("prlimit: %v: %s", err, out)
	}
}

// TestTerminalWithoutDescriptors: a connection for which sing-srun has no descriptor does not keep sing-srun busy, and
// is accepted when there is a descriptor.
func TestTerminalWithoutDescriptors(t *testing.T) {
	c := startIdleCall(t, nil)
	pid := c.cmd.Process.Pid
	free := 0 // the lowest descriptor that sing-srun does not use
	for isPresent(fmt.Sprintf("/proc/%d/fd/%d", pid, free)) {
		free++
	}
	setDescriptorLimit(t, pid, free)
	waiting := c.connectWith(c.proof)
	asleep := 0 // looks in succession that have found sing-srun asleep
	waitFor(t, 30*time.Second, "sing-srun sleeps", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if asleep++; !bytes.Contains(stat, []byte(") S ")) {
			asleep = 0
		}
		return asleep == 50
	})
	setDescriptorLimit(t, pid, free+1)
	if err := waiting.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(waiting, make([]byte, 13)); err != nil {
		t.Error("no window has come: ", err)
	}
	waiting.Close()
	c.endStep()
	c.expectEnd()
}

// TestTerminalSlowReader: output that standard output has not taken at srun's end is not lost, however long its reader
// takes.
func TestTerminalSlowReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := startIdleCall(t, w)
	w.Close()
	want := bytes.Repeat([]byte("0123456789abcde\n"), 100<<10/16) // more than the pipe takes
	terminal := c.connectTerminal()
	if _, err := terminal.Write(want); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	c.endStep()
	waitFor(t, 30*time.Second, "sing-srun waits for the reader of its output only, and without a limit", func() bool {
		// The number of the system call and its arguments: ppoll(fds, 1, NULL, ...).
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", c.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(call))
		return len(words) > 3 && words[0] == fmt.Sprint(unix.SYS_PPOLL) && words[2] == "0x1" && words[3] == "0x0"
	})
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v, want %d bytes", len(got), err, len(want))
	}
	c.expectEnd()
}
