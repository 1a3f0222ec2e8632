// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// queueProgram has queues with messages of several priorities, a queue that is open in three ways and in two processes,
// and a queue that no process has open. The program answers with the properties of the descriptors, and with all
// messages, which it puts back: the answer is always the same, and so is the order.
const queueProgram = `
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Attr(ctypes.Structure): _fields_ = [('flags', ctypes.c_long), ('maxmsg', ctypes.c_long), ('msgsize', ctypes.c_long), ('curmsgs', ctypes.c_long), ('pad', ctypes.c_long * 4)]
def checked(n):
    if n < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return n
def opened(name, flags, mode=0o600, maxmsg=9, msgsize=40):
    return checked(libc.mq_open(name, flags, mode, ctypes.byref(Attr(maxmsg=maxmsg, msgsize=msgsize))))
def send(q, text, priority): checked(libc.mq_send(q, text, len(text), priority))
def receive(q):
    b = ctypes.create_string_buffer(8192); p = ctypes.c_uint()
    n = checked(libc.mq_receive(q, b, 8192, ctypes.byref(p)))
    return p.value, b.raw[:n]
def attr(q):
    a = Attr(); checked(libc.mq_getattr(q, ctypes.byref(a))); return a.flags, a.maxmsg, a.msgsize, a.curmsgs
os.umask(0)
C = os.O_CREAT
both = opened(b'/both', C | os.O_RDWR); out = opened(b'/both', os.O_WRONLY | os.O_NONBLOCK); inn = opened(b'/both', os.O_RDONLY)
full = opened(b'/full (deleted)', C | os.O_RDWR | os.O_NONBLOCK, 0o640, 2, 5); os.set_inheritable(inn, True)
unused = opened(b'/unused', C | os.O_RDWR, 0o622, 3, 8); send(unused, b'kept', 9); libc.mq_close(unused)
for p in 1, 7, 1, 7, 30000, 0, 1: send(out, b'%d of %d' % (attr(both)[3], p), p)
send(full, b'', 4); send(full, b'x\0y', 4)
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    while os.read(r, 1):
        fcntl.fcntl(both, fcntl.F_SETFL, fcntl.fcntl(both, fcntl.F_GETFL) ^ os.O_NONBLOCK)
        os.write(w2, b'%9d' % fcntl.fcntl(both, fcntl.F_GETFL))
    os._exit(0)
def contents(q):
    all = [receive(q) for _ in range(attr(q)[3])]
    for p, text in all: send(q, text, p)
    return all
def check():
    os.write(w, b'.'); child = int(os.read(r2, 9)); mine = fcntl.fcntl(both, fcntl.F_GETFL)
    os.write(w, b'.'); os.read(r2, 9)
    again = opened(b'/unused', os.O_RDWR); kept = contents(again), attr(again), oct(os.fstat(again).st_mode); libc.mq_close(again)
    try: send(full, b'.', 0); said = 'sent'
    except OSError as e: said = e.errno
    return [child == mine, [(oct(fcntl.fcntl(q, fcntl.F_GETFL)), os.get_inheritable(q), attr(q), os.fstat(q).st_uid, oct(os.fstat(q).st_mode), os.readlink('/proc/self/fd/%d' % q)) for q in (both, out, inn, full)],
        contents(both), contents(full), kept, said]
SYSV
print('ready', flush=True)
while sys.stdin.readline(): print(check(), flush=True)
for name in b'/both', b'/full (deleted)', b'/unused': checked(libc.mq_unlink(name))
print('end', flush=True); os._exit(0)`

// sysV adds a System V queue: the restored program has an IPC namespace of its own.
const sysV = `
note = checked(libc.msgget(0, 0o600)); number = note
class Note(ctypes.Structure): _fields_ = [('type', ctypes.c_long), ('text', ctypes.c_char * 4)]
checked(libc.msgsnd(note, ctypes.byref(Note(5, b'note')), 4, 0)); inner = check
def check():
    n = Note(); checked(libc.msgrcv(note, ctypes.byref(n), 4, 0, 0)); checked(libc.msgsnd(note, ctypes.byref(n), 4, 0))
    return inner() + [n.type, n.text]`

// TestMessageQueues: POSIX message queues are as before after a dump, and after a restore, and a second time.
func TestMessageQueues(t *testing.T) {
	needCRIU(t)
	for _, k := range []struct {
		name  string
		uid   uint32
		extra string
	}{{"alone", user, ""}, {"beside System V", user, sysV}, {"root's", 0, ""}, {"root's beside System V", 0, sysV}} {
		t.Run(k.name, func(t *testing.T) {
			c := newCapsule(t)
			r := c.runAs(k.uid, "/usr/bin/python3", "-c", strings.Replace(queueProgram, "SYSV", k.extra, 1))
			r.expectLine("ready")
			r.writeLine("?")
			want := r.readLine()
			for _, part := range []string{"[True, ", "[(30000, b'4 of 30000'), (7, b'1 of 7'), (7, b'3 of 7'), (1, b'0 of 1'), (1, b'2 of 1'), (1, b'6 of 1'), (0, b'5 of 0')]", "[(9, b'kept')]", "[(4, b''), (4, b'x\\x00y')]", " 11"} {
				if !strings.Contains(want, part) {
					t.Fatalf("no %s in %s", part, want)
				}
			}
			for range 2 {
				queues := r.captureQueues()
				dir := newImageFolder(t)
				r.program.Queues = queues
				img := dumpProgram(t, r.program, dir)
				r.askAndExpect("?", want)
				c.endCapsule()
				c = newCapsule(t)
				if !img.HasSysV() {
					if err := messagequeue.Restore(t.Context(), fmt.Sprintf("/proc/%d/ns/ipc", c.initPID()), queues); err != nil {
						t.Fatal(err)
					}
				}
				if img.HasSysV() != (k.extra != "") {
					t.Errorf("System V objects: %v", img.HasSysV())
				}
				r = c.restoreWith(img, dir, queues)
				r.askAndExpect("?", want)
			}
			r.in.Close()
			r.expectLine("end") // the names were there for mq_unlink
		})
	}
}

// captureQueues captures the queues that a program sees, while the program waits for a line.
func (r *running) captureQueues() *messagequeue.State {
	r.t.Helper()
	members, err := listMembers(r.program.Init)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := messagequeue.Capture(fmt.Sprintf("/proc/%d/ns/ipc", members[r.program.PID].host))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// TestRemovedQueue: CRIU refuses an open queue with a removed name: no option tells criu that such a queue is
// external.
func TestRemovedQueue(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", strings.Replace(queueProgram, "SYSV", "libc.mq_unlink(b'/both')", 1))
	r.expectLine("ready")
	r.program.Queues = r.captureQueues()
	_, err := Dump(testDeadline(t), r.program, newImageFolder(t))
	if err == nil || !strings.Contains(err.Error(), "has /both (deleted) open") {
		t.Errorf("Dump: error %v, want one that names the removed queue", err)
	}
}

// waitingProgram has a thread that waits to send to a full queue and a thread that waits for a message in an empty
// queue. The program answers with the results of the threads, and with the next message of the full queue.
const waitingProgram = `
import threading, time
early, late = opened(b'/early', C | os.O_RDWR, 0o600, 3, 9), opened(b'/late', C | os.O_RDWR, 0o600, 3, 9)
for text in b'1', b'2', b'3': send(early, text, 5)
done = []
def sending(): send(early, b'4', 5); done.append('sent')
def receiving(): done.append(receive(late))
threads = [threading.Thread(target=f, daemon=True) for f in (sending, receiving)]
for t in threads: t.start()
def waiting(t): return open('/proc/self/task/%d/wchan' % t.native_id).read().startswith('wq_sleep')
while not all(map(waiting, threads)): time.sleep(0.01)
def check():
    idle = list(done), attr(early)[3], attr(late)[3]
    taken = [receive(early)]; threads[0].join(); taken += [receive(early) for _ in range(3)]
    send(late, b'woken', 1); threads[1].join()
    return idle, taken, done`

// TestQueuesOfWaitingThreads: threads that wait at a queue are frozen; a capture of the queues lets no thread go on,
// and leaves no free place that a waiting sender could fill.
func TestQueuesOfWaitingThreads(t *testing.T) {
	needCRIU(t)
	const want = "(([], 3, 0), [(5, b'1'), (5, b'2'), (5, b'3'), (5, b'4')], ['sent', (1, b'woken')])"
	for name, restored := range map[string]bool{"in place": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			g, c := newCgroup(t), newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", strings.Replace(queueProgram, "SYSV", waitingProgram, 1))
			r.expectLine("ready")
			g.putProcess(t, r)
			if err := g.setFrozen(testDeadline(t), true); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				r.program.Queues = r.captureQueues()
			}
			dir := newImageFolder(t)
			img := dumpProgram(t, r.program, dir)
			if restored {
				queues := r.program.Queues
				c.endCapsule()
				c = newCapsule(t)
				if err := messagequeue.Restore(t.Context(), fmt.Sprintf("/proc/%d/ns/ipc", c.initPID()), queues); err != nil {
					t.Fatal(err)
				}
				r = c.restoreWith(img, dir, queues)
			} else if err := g.setFrozen(testDeadline(t), false); err != nil {
				t.Fatal(err)
			}
			r.askAndExpect("?", want)
		})
	}
}
