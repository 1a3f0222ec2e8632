// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// others are programs that run in the capsule beside the dumped program.
var others = map[string]string{
	"abstract socket": `
import socket, threading
s = socket.socket(socket.AF_UNIX); s.bind('\0outside'); s.listen()
def serve(): c = s.accept()[0]; c.send(b'x'); threading.Event().wait()
threading.Thread(target=serve, daemon=True).start()`,
	"terminal": `
import os
m = os.posix_openpt(os.O_RDWR | os.O_NOCTTY); os.unlockpt(m); os.grantpt(m); open('/tmp/terminal', 'w').write(os.ptsname(m))`,
}

// confine begins a script in which confine() has the calling thread execute no files from then on.
const confine = `
import ctypes
libc = ctypes.CDLL(None)
def confine():
    ruleset = libc.syscall(444, ctypes.byref(ctypes.c_uint64(1)), 8, 0)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, ruleset, 0) == 0
    import os; os.close(ruleset)
`

// TestObstacles: the error names the part of the program that cannot be dumped, and the program runs on.
func TestObstacles(t *testing.T) {
	needCRIU(t)
	for name, test := range map[string]struct{ script, want string }{
		"terminal": {`
import os
s = os.open(open('/tmp/terminal').read(), os.O_RDWR | os.O_NOCTTY)`, `^process \d+ \(python3\) holds a terminal`},
		"terminal of the session": {`
import os, pty, signal
r, w = os.pipe(); pid, m = pty.fork()
if pid == 0:
    t = os.open('/dev/tty', os.O_RDWR)
    if os.fork() == 0: os.setsid(); os.write(w, b'.')
    while True: signal.pause()
os.read(r, 1)`, `^the terminal of session \d+, opened as /dev/tty, is open in a process that has another terminal or none$`},
		"io_uring": {`
import ctypes
libc = ctypes.CDLL(None); p = ctypes.create_string_buffer(256)
assert libc.syscall(425, 4, p) >= 0`, `^process \d+ \(python3\) uses io_uring$`},
		"device": {`
import os
f = os.open('/dev/fuse', os.O_RDWR)`, `^process \d+ \(python3\) serves a FUSE file system$`},
		"abstract socket": {`
import socket
s = socket.socket(socket.AF_UNIX); s.connect('\0outside'); s.recv(1)`, `^process \d+ \(python3\) is connected to a unix socket `},
		"shared code": {`
import ctypes
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
assert libc.mmap(0x200000, 4096, 5, 0x100021, -1, 0) == 0x200000`, `^process \d+ \(python3\) runs code in shared memory`},
		"removed name": {`
import os
f = open('/tmp/one', 'w'); os.link('/tmp/one', '/tmp/two'); os.unlink('/tmp/one')`,
			`^process \d+ \(python3\) has /tmp/one( \(deleted\))? open, which was removed but has another name$`},
		"pidfd": {`
import os
f = os.pidfd_open(1)`, `^process \d+ \(python3\) holds a pidfd of process 1, which is not the program's$`},
		"backlog": {`
import socket
a = socket.create_server(('127.0.0.1', 7001)); b = socket.create_connection(('127.0.0.1', 7001))`,
			`^process \d+ \(python3\) has a connection that it has not accepted yet`},
		"mptcp": {`
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.bind(('127.0.0.1', 7002)); s.listen()`,
			`^process \d+ \(python3\) uses a protocol that cannot be dumped`},
		"debugger": {`
import ctypes, os, signal
libc = ctypes.CDLL(None)
if os.fork() == 0:
    libc.ptrace(0, 0, 0, 0); signal.raise_signal(signal.SIGSTOP); os._exit(0)
os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOWAIT)`, `^process \d+( \(python3\))? is run by a debugger$`},
		"Landlock": {confine + `confine()`, `^process \d+ \(python3\) has confined itself by Landlock$`},
		"Landlock in a thread": {confine + `
import threading
done = threading.Event()
def work(): confine(); done.set(); threading.Event().wait()
threading.Thread(target=work, daemon=True).start(); done.wait()`, `^process \d+ \(python3\) has confined itself by Landlock$`},
		"Landlock in a child": {confine + `
import os, signal
r, w = os.pipe()
if os.fork() == 0:
    confine(); os.write(w, b'.')
    while True: signal.pause()
os.read(r, 1)`, `^process \d+ \(python3\) has confined itself by Landlock$`},
		"namespace": {`
import os
pid = os.fork()
if pid == 0:
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS); print('in', flush=True); import time; time.sleep(1000)`, `namespace of its own`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCapsule(t)
			if other, ok := others[name]; ok {
				c.runProgram("/usr/bin/python3", "-c", other+"\nprint('up', flush=True); input()").expectLine("up")
			}
			r := c.runProgram("/usr/bin/python3", "-c", test.script+"\nprint('ready', flush=True)\nprint(input() + ' answered', flush=True)")
			if name == "namespace" {
				if got := r.readLine() + r.readLine(); got != "inready" && got != "readyin" {
					t.Fatalf("the two processes printed %q, want in and ready", got)
				}
			} else {
				r.expectLine("ready")
			}
			_, err := Dump(testDeadline(t), r.program, newImageFolder(t))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Dump: error %v, want an *Error", err)
			}
			if !regexp.MustCompile(test.want).MatchString(e.Obstacle) {
				t.Errorf("obstacle %q, want %q; criu says:\n%s", e.Obstacle, test.want, strings.Join(e.Lines, "\n"))
			}
			r.askAndExpect("question", "question answered")
		})
	}
}

// TestConfinedWhileFrozen: a program that has confined itself after the last look for obstacles is found when the
// program is frozen, and runs on as before.
func TestConfinedWhileFrozen(t *testing.T) {
	needCRIU(t)
	g, c := newCgroup(t), newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", confine+"confine()\nprint('ready', flush=True)\nprint(input() + ' answered', flush=True)")
	r.expectLine("ready")
	g.putProcess(t, r)
	if err := g.setFrozen(testDeadline(t), true); err != nil {
		t.Fatal(err)
	}
	_, err := Dump(testDeadline(t), r.program, newImageFolder(t))
	var e *Error
	if !errors.As(err, &e) || !strings.HasSuffix(e.Obstacle, "(python3) has confined itself by Landlock") {
		t.Errorf("Dump: error %v, want one about Landlock", err)
	}
	if !g.standsStill(t) {
		t.Error("the program is not frozen any more")
	}
	if err := g.setFrozen(testDeadline(t), false); err != nil {
		t.Fatal(err)
	}
	r.askAndExpect("question", "question answered")
}
