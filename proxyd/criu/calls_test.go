// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// waitingCalls makes each call that a stop interrupts: in a process of its own, and in a thread of a process with many.
// A call with a timeout waits for LAST seconds; a call without a timeout is let go when a line is read. The program
// then prints the result of each call, and after how long it returned.
const waitingCalls = `
import ctypes, errno, json, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
LAST = %d
def buffer(*words): return ctypes.create_string_buffer(struct.pack("%%dq" %% len(words), *words))
def span(): return buffer(LAST, 0)
def until(clock):
    t = time.clock_gettime_ns(clock) + LAST * 10**9
    return buffer(t // 10**9, t %% 10**9)
def call(name, *words):
    ctypes.set_errno(0)
    f = getattr(libc, name)
    f.restype = ctypes.c_long if name in ("recv", "syscall") else ctypes.c_int
    r = f(*[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
    return [r, errno.errorcode.get(ctypes.get_errno(), "") if r < 0 else ""]
def raw(*words): return call("syscall", *words)
def with_left(): return raw(35, span(), buffer(-1, -1))
def same():
    t = span()
    return raw(35, t, t)
def sem():
    s = ctypes.create_string_buffer(64)
    libc.sem_init(s, 0, 0)
    return call("sem_timedwait", s, until(time.CLOCK_REALTIME))
def condition():
    c, m = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(m)
    return [libc.pthread_cond_timedwait(c, m, until(time.CLOCK_REALTIME)), ""]
def receive():
    a, b = socket.socketpair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", LAST, 0))
    return call("recv", a.fileno(), ctypes.create_string_buffer(8), 8, 0)
def epoll(wait):
    e = select.epoll()
    if wait < 0: e.register(gate, select.EPOLLIN)
    return call("epoll_wait", e.fileno(), ctypes.create_string_buffer(16), 1, wait)
def semop():
    s = libc.semget(0, 1, 0o600)
    threading.Thread(target=lambda: (os.read(gate, 1), libc.semctl(s, 0, 16, 1)), daemon=True).start()
    r = call("semop", s, ctypes.create_string_buffer(struct.pack("Hhh", 0, -1, 0)), 1)
    libc.semctl(s, 0, 0)
    return r
def pollfd(): return ctypes.create_string_buffer(struct.pack("ihh", gate, 1, 0))
def waitinfo():
    me = threading.get_native_id()
    threading.Thread(target=lambda: (os.read(gate, 1), raw(234, os.getpid(), me, 10)), daemon=True).start()
    return call("sigwaitinfo", SET, 0)
SET = ctypes.create_string_buffer(struct.pack("16Q", 1 << 9, *[0] * 15))
libc.pthread_sigmask(0, SET, None)
timed = {
    "nanosleep": lambda: raw(35, span(), 0), "nanosleep, left": with_left, "nanosleep, same": same,
    "clock_nanosleep": lambda: raw(230, 1, 0, span(), 0), "clock_nanosleep, real": lambda: raw(230, 0, 0, span(), 0),
    "clock_nanosleep, left": lambda: raw(230, 1, 0, span(), buffer(0, 0)),
    "poll": lambda: call("poll", 0, 0, LAST * 1000), "ppoll": lambda: call("ppoll", 0, 0, span(), 0),
    "select": lambda: call("select", 0, 0, 0, 0, span()),
    "epoll_wait": lambda: epoll(LAST * 1000), "sem_timedwait": sem, "pthread_cond_timedwait": condition, "recv": receive,
    "futex": lambda: raw(202, ctypes.create_string_buffer(8), 0, 0, span(), 0, 0),
    "time.sleep": lambda: [time.sleep(LAST), ""], "Event.wait": lambda: [threading.Event().wait(LAST), ""],
    "select.poll": lambda: [len(select.poll().poll(LAST * 1000)), ""],
}
endless = {
    "poll, endless": lambda: call("poll", pollfd(), 1, -1), "epoll_wait, endless": lambda: epoll(-1),
    "semop": semop, "sigwaitinfo": waitinfo,
}
gate, opener = os.pipe()
results, said = os.pipe()
def run(name, f, where):
    begin = time.monotonic()
    r = f()
    os.write(said, (json.dumps([name + where] + r + [time.monotonic() - begin]) + "\n").encode())
all = {**timed, **endless}
for name, f in all.items():
    if os.fork() == 0:
        run(name, f, "")
        os._exit(0)
if os.fork() == 0:
    threads = [threading.Thread(target=run, args=(name, f, " in a thread")) for name, f in all.items()]
    for t in threads: t.start()
    for t in threads: t.join()
    os._exit(0)
time.sleep(0.5)
print("ready", flush=True)
sys.stdin.readline()
os.write(opener, b"x" * 4096)
lines = os.fdopen(results)
print(json.dumps([json.loads(lines.readline()) for _ in range(2 * len(all))]), flush=True)
`

// callWait is the time that a call with a timeout waits.
const callWait = 12 * time.Second

// wantCalls compares the results of the calls with those on a plain system. No call may end early, nor later than
// latest, except calls that need not know when they began.
//
// lastThaw is when the program was thawed last, after its begin; restored says that its clock was put back since, and
// the time of day was not.
func wantCalls(t *testing.T, r *running, latest, lastThaw time.Duration, restored bool) {
	t.Helper()
	r.outFile.SetReadDeadline(time.Now().Add(90 * time.Second))
	r.writeLine("go")
	var all [][]any
	if err := json.Unmarshal([]byte(r.readLine()), &all); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"nanosleep": "0 ", "nanosleep, left": "0 ", "nanosleep, same": "0 ", "clock_nanosleep": "0 ", "clock_nanosleep, real": "0 ",
		"clock_nanosleep, left": "0 ", "poll": "0 ", "ppoll": "0 ", "select": "0 ", "epoll_wait": "0 ", "sem_timedwait": "-1 ETIMEDOUT",
		"pthread_cond_timedwait": "110 ", "recv": "-1 EAGAIN", "futex": "0 ", "time.sleep": "<nil> ", "Event.wait": "false ",
		"select.poll": "0 ", "poll, endless": "1 ", "epoll_wait, endless": "1 ", "semop": "0 ", "sigwaitinfo": "10 ",
	}
	for _, c := range all {
		name := strings.TrimSuffix(c[0].(string), " in a thread")
		took := time.Duration(c[3].(float64) * float64(time.Second))
		got := fmt.Sprint(c[1], " ", c[2])
		t.Logf("%-40s %-16s after %v", c[0], got, took.Round(time.Millisecond))
		if got != want[name] {
			t.Errorf("%s: returned %s after %v, want %s", c[0], got, took, want[name])
		}
		switch name {
		case "futex", "poll, endless", "epoll_wait, endless", "semop", "sigwaitinfo": // no timeout, or a spurious wake-up
			continue
		case "sem_timedwait", "pthread_cond_timedwait": // by the time of day
			if restored {
				continue
			}
		}
		latest := latest
		if name == "recv" { // its timeout begins anew
			latest = lastThaw + callWait + slack
		}
		if took < callWait || took > latest {
			t.Errorf("%s: %v after its begin, want %v to %v", c[0], took, callWait, latest)
		}
	}
}

func startWaitingCalls(t *testing.T) (cgroup, *capsule, *running) {
	t.Helper()
	g, c := newCgroup(t), newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", fmt.Sprintf(waitingCalls, callWait/time.Second))
	r.expectLine("ready")
	g.putProcess(t, r)
	return g, c, r
}

func observeProgram(t *testing.T, c *capsule, r *running) {
	t.Helper()
	var err error
	if r.program.Observed, err = syscalls.Observe(c.initPID()); err != nil {
		t.Fatal(err)
	}
}

// slack is the time that a busy machine may add to a wait.
const slack = 4 * time.Second

// TestCallsGoOn: system calls that wait go on after a dump, with the time that is left.
func TestCallsGoOn(t *testing.T) {
	needCRIU(t)
	begun := time.Now()
	g, c, r := startWaitingCalls(t)
	var longest time.Duration
	for range 10 {
		observeProgram(t, c, r)
		frozen := time.Now()
		if err := g.setFrozen(testDeadline(t), true); err != nil {
			t.Fatal(err)
		}
		if err := dumpProgram(t, r.program, newImageFolder(t)).SetTimeLeft(); err != nil {
			t.Fatal(err)
		}
		if err := g.setFrozen(testDeadline(t), false); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(frozen))
		time.Sleep(300 * time.Millisecond) // the program runs
	}
	// A call that began anew at the last dump would end only callWait after the last thaw.
	lastThaw := time.Since(begun)
	wantCalls(t, r, callWait+longest+max(slack, lastThaw/2), lastThaw, false)
}

// TestCallsGoOnAfterRestore: system calls of a restored program go on, too.
func TestCallsGoOnAfterRestore(t *testing.T) {
	needCRIU(t)
	begun := time.Now()
	g, c, r := startWaitingCalls(t)
	observeProgram(t, c, r)
	frozen := time.Now()
	if err := g.setFrozen(testDeadline(t), true); err != nil {
		t.Fatal(err)
	}
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	c.endCapsule()
	_, r = restoreImage(t, img, dir)
	wantCalls(t, r, callWait+time.Since(frozen)+slack, time.Since(begun), true)
}

// handled sleeps for a minute, in C, unless a signal's handler interrupts that.
const handled = `
import ctypes, errno, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGUSR1, lambda s, f: None)
print("ready", flush=True)
r = libc.nanosleep(struct.pack("qq", 60, 0), None)
print(r, errno.errorcode.get(ctypes.get_errno()), flush=True)
`

// TestHandlerInterruptsCall: a call that is made again returns EINTR where a handler runs, as
// without a dump.
func TestHandlerInterruptsCall(t *testing.T) {
	needCRIU(t)
	for _, when := range []string{"before the dump", "after the dump", "when it runs"} {
		t.Run(when, func(t *testing.T) {
			g, c := newCgroup(t), newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", handled)
			r.expectLine("ready")
			g.putProcess(t, r)
			members, err := listMembers(c.initPID())
			if err != nil {
				t.Fatal(err)
			}
			host := members[r.program.PID].host
			sleeps := func(call string) func() bool {
				return func() bool { return strings.HasPrefix(readFile(t, fmt.Sprintf("/proc/%d/syscall", host)), call+" ") }
			}
			waitFor(t, sleeps("230")) // clock_nanosleep
			signal := func(moment string) {
				if moment != when {
					return
				}
				if err := unix.Kill(host, unix.SIGUSR1); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.setFrozen(testDeadline(t), true); err != nil {
				t.Fatal(err)
			}
			signal("before the dump")
			img := dumpProgram(t, r.program, newImageFolder(t))
			signal("after the dump")
			if err := img.SetTimeLeft(); err != nil {
				t.Fatal(err)
			}
			if err := g.setFrozen(testDeadline(t), false); err != nil {
				t.Fatal(err)
			}
			if when == "when it runs" {
				waitFor(t, sleeps("7")) // poll
			}
			signal("when it runs")
			r.outFile.SetReadDeadline(time.Now().Add(40 * time.Second))
			r.expectLine("-1 EINTR")
		})
	}
}
