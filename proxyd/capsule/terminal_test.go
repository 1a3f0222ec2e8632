// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

const terminalSecret = "0123456789abcdef0123456789abcdef"

// listenIn listens at the loopback interface of a capsule.
func listenIn(t *testing.T, c *Capsule) net.Listener {
	t.Helper()
	ns, err := c.Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	defer localsock.CloseAll(ns)
	var l net.Listener
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		err := unix.Setns(int(ns[1].Fd()), unix.CLONE_NEWNET)
		if err == nil {
			l, err = net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a test
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// terminalTask is a task of srun --pty.
func terminalTask(c *Capsule, place string, rank int, script string) task {
	return task{c: c, name: fmt.Sprintf("s0-1.%d", rank), argv: shellCommand(script),
		env: []string{"PATH=/usr/bin:/bin", "SINGULARITY_SLURM_TERMINAL=" + place, fmt.Sprintf("SLURM_PROCID=%d", rank)}}
}

// srunEnd is sing-srun's end of the connection (slurm-spank/terminal.h).
type srunEnd struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func acceptTerminal(t *testing.T, l net.Listener) srunEnd {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	e := srunEnd{t, conn, bufio.NewReader(conn)}
	hello := make([]byte, 5+len(terminalSecret))
	if _, err := io.ReadFull(e.in, hello); err != nil || string(hello) != "\x00\x00\x00\x20\x01"+terminalSecret {
		t.Fatalf("sing-terminal begins with %q, %v", hello, err)
	}
	return e
}

func (e srunEnd) sendFrame(kind byte, b []byte) {
	e.t.Helper()
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), kind)
	if _, err := e.Write(append(frame, b...)); err != nil {
		e.t.Fatal(err)
	}
}

func (e srunEnd) sendWindow(rows, columns uint32) {
	e.sendFrame(32, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, rows), columns))
}

func (e srunEnd) expectLine(want string) {
	e.t.Helper()
	line, err := e.in.ReadString('\n')
	if line != want+"\r\n" {
		e.t.Fatalf("the terminal shows %q, want %q, %v", line, want, err)
	}
}

// TestTerminal: the program of srun --pty has a terminal of its own, with the keys and the window of sing-srun, which
// has read all output when the program's end is told.
func TestTerminal(t *testing.T) {
	c := newCapsule(t)
	l := listenIn(t, c)
	place := l.Addr().String() + ":" + terminalSecret
	const script = `stty size; tty; : < /dev/tty && [ $(ps -o sid= -p $$) = $$ ] && echo leads; echo ${SINGULARITY_SLURM_TERMINAL-no place}
		read -r x; echo got $x; stty -echo; echo quiet; until [ "$(stty size)" = "40 90" ]; do sleep 0.05; done
		(trap "" INT; sleep 1000) & exec perl -e '$| = 1; print "waits\n"; sleep 1000'`
	r := terminalTask(c, place, 0, script).startTask(t)
	e := acceptTerminal(t, l)
	e.sendWindow(33, 77)
	e.expectLine("33 77")
	e.expectLine("/dev/pts/0")
	e.expectLine("leads")
	e.expectLine("no place")
	e.sendFrame(33, []byte("a key\n"))
	e.expectLine("a key") // the terminal's echo
	e.expectLine("got a key")
	e.expectLine("quiet")
	e.sendWindow(40, 90)
	e.expectLine("waits") // of perl's own: a shell that waits for a program leaves Control-C to that program
	e.sendFrame(33, []byte("\x03"))
	if status := waitAfterEnd(t, r, e); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("the task ended with %v, want SIGINT", status)
	}

	r = terminalTask(c, place, 0, "seq 10000; exit 5").startTask(t)
	e = acceptTerminal(t, l)
	e.sendWindow(33, 77)
	e.sendFrame(33, []byte("keys that are not read"))
	shown, err := io.ReadAll(e.in)
	if got := string(shown); err != nil || !strings.HasSuffix(got, "\r\n9999\r\n10000\r\n") {
		t.Errorf("shown %d bytes, %v; the end is %q", len(got), err, got[max(0, len(got)-30):])
	}
	if status := waitAfterEnd(t, r, e); status.ExitStatus() != 5 {
		t.Errorf("the task ended with %v, want exit code 5", status)
	}
}

// waitAfterEnd waits for the end of the terminal's output, lets the connection go, and returns the task's end.
func waitAfterEnd(t *testing.T, r *running, e srunEnd) syscall.WaitStatus {
	t.Helper()
	if rest, err := io.ReadAll(e.in); err != nil {
		t.Errorf("the end of the output: %q, %v", rest, err)
	}
	e.Close()
	return r.waitForEnd()
}

// TestTerminalLost: when sing-srun has gone, the program gets SIGHUP, as after the end of a terminal.
func TestTerminalLost(t *testing.T) {
	c := newCapsule(t)
	l := listenIn(t, c)
	place := l.Addr().String() + ":" + terminalSecret
	lost := terminalTask(c, place, 0, "trap 'exit 6' HUP; echo ready; while :; do sleep 0.05; done")
	// A shell traps no signal that was ignored when the shell began: nohup go test.
	lost.argv = append([]string{"/usr/bin/env", "--default-signal=HUP"}, lost.argv...)
	r := lost.startTask(t)
	e := acceptTerminal(t, l)
	e.sendWindow(33, 77)
	e.expectLine("ready")
	e.Close()
	if status := r.waitForEnd(); status.ExitStatus() != 6 {
		t.Errorf("the task ended with %v, want exit code 6", status)
	}
}

// TestTerminalRefused: tasks but the first have no terminal, and a program does not run without the one that it is to
// have.
func TestTerminalRefused(t *testing.T) {
	c := newCapsule(t)
	l := listenIn(t, c)
	place := l.Addr().String() + ":" + terminalSecret
	null := `for fd in 0 1 2; do [ /dev/fd/$fd -ef /dev/null ] || exit 9; done; exit 3`
	if out, errs, status := terminalTask(c, place, 1, null).runTask(t); out+errs != "" || status.ExitStatus() != 3 {
		t.Errorf("the second task: %q, %q, %v; want exit code 3", out, errs, status)
	}
	l.Close()
	_, errs, status := terminalTask(c, place, 0, "exit 4").runTask(t)
	if !strings.Contains(errs, "srun --pty: the terminal of srun cannot be reached: Connection refused") || status.ExitStatus() != 125 {
		t.Errorf("without a sing-srun: %q, %v", errs, status)
	}
	_, errs, status = terminalTask(c, "nonsense", 0, "exit 4").runTask(t)
	if !strings.Contains(errs, "srun --pty: the environment of s0-1.0 has no place in a step") || status.ExitStatus() != 125 {
		t.Errorf("without a place: %q, %v", errs, status)
	}
}
