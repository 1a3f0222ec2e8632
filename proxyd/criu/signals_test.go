// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	criucore "github.com/checkpoint-restore/go-criu/v7/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/siginfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/timer"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// timed sets one-shot timers of three kinds that go off some seconds later, and tells which signals came and why.
const timed = `
import ctypes, os, signal, struct, sys, threading
libc = ctypes.CDLL(None)
memory = bytearray(os.urandom(64 << 20))
rt = signal.SIGRTMIN
want = [signal.SIGALRM, rt + 1, rt + 2]
signal.pthread_sigmask(signal.SIG_BLOCK, want)
def timer(sig, notify, tid):
    event = ctypes.create_string_buffer(struct.pack("qiii", 77, sig, notify, tid), 64)
    t = ctypes.c_void_p()
    assert libc.timer_create(1, event, ctypes.byref(t)) == 0
    assert libc.timer_settime(t, 0, struct.pack("qqqq", 0, 0, 3, 0), None) == 0
timer(rt + 1, 0, 0)
timer(rt + 2, 4, threading.get_native_id())
signal.setitimer(signal.ITIMER_REAL, 3)
print("ready", flush=True)
got = [signal.sigwaitinfo(want) for _ in want]
print(sorted((g.si_signo - (rt if g.si_signo > 32 else 0), g.si_code) for g in got), signal.sigpending() & set(want), flush=True)
`

// slowed is a sink that takes an image of memory only when late has returned.
type slowed struct {
	Sink
	late func()
}

func (s slowed) Create(name string) (io.WriteCloser, error) {
	if strings.HasPrefix(name, "pages-") {
		s.late()
	}
	return s.Sink.Create(name)
}

func TestTimersGoOffDuringTheDump(t *testing.T) {
	needCRIU(t)
	const want = "[(1, -2), (2, -2), (14, 128)] set()"
	g, c := newCgroup(t), newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", timed)
	r.expectLine("ready")
	g.putProcess(t, r)
	if err := g.setFrozen(testDeadline(t), true); err != nil {
		t.Fatal(err)
	}
	members, err := listMembers(c.initPID())
	if err != nil {
		t.Fatal(err)
	}
	host := members[r.program.PID].host
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, slowed{dir, func() {
		waitFor(t, func() bool {
			w := readPendingSignals(host)[r.program.PID]
			return w.shared&signalBit(unix.SIGALRM) != 0 && w.own != 0
		})
	}})
	if err := g.setFrozen(testDeadline(t), false); err != nil {
		t.Fatal(err)
	}
	r.expectLine(want)
	c.endCapsule()
	_, r = restoreImage(t, img, dir)
	r.expectLine(want)
}

func TestLateSignals(t *testing.T) {
	const rt = unix.Signal(34)
	info := func(sig unix.Signal, code int32) *siginfo.SiginfoEntry {
		b := make([]byte, siSize)
		binary.LittleEndian.PutUint32(b, uint32(sig))
		binary.LittleEndian.PutUint32(b[8:], uint32(code))
		return &siginfo.SiginfoEntry{Siginfo: b}
	}
	none := &timer.ItimerEntry{Isec: new(uint64), Iusec: new(uint64), Vsec: new(uint64), Vusec: new(uint64)}
	left := proto.Clone(none).(*timer.ItimerEntry)
	left.Vusec = proto.Uint64(5)
	posix := func(sig unix.Signal, notify uint32, tid int32, left uint64) *timer.PosixTimerEntry {
		zero := new(uint64)
		return &timer.PosixTimerEntry{
			ItId: proto.Uint32(3), ClockId: new(uint32), SiSigno: proto.Uint32(uint32(sig)), ItSigevNotify: &notify,
			SivalPtr: proto.Uint64(77), Overrun: new(uint32), Isec: zero, Insec: zero, Vsec: zero, Vnsec: &left, NotifyThreadId: &tid,
		}
	}
	timers := func(real *timer.ItimerEntry, posix ...*timer.PosixTimerEntry) *timer.TaskTimersEntry {
		return &timer.TaskTimersEntry{Real: real, Virt: none, Prof: none, Posix: posix}
	}
	for name, test := range map[string]struct {
		now    uint64
		noted  []*siginfo.SiginfoEntry
		timers *timer.TaskTimersEntry
		tid    int
		want   string // signal and code of each
	}{
		"nothing":                    {timers: timers(none)},
		"an alarm":                   {now: signalBit(unix.SIGALRM), timers: timers(none), want: "14 128 "},
		"an alarm to come":           {now: signalBit(unix.SIGALRM), timers: timers(left)},
		"an alarm that was noted":    {now: signalBit(unix.SIGALRM), noted: []*siginfo.SiginfoEntry{info(unix.SIGALRM, siKernel)}, timers: timers(none)},
		"an alarm for one thread":    {now: signalBit(unix.SIGALRM), timers: timers(none), tid: 9, want: "14 0 "},
		"a timer":                    {now: signalBit(rt), timers: timers(none, posix(rt, 0, 0, 0)), want: "34 -2 "},
		"a timer to come":            {now: signalBit(rt), timers: timers(none, posix(rt, 0, 0, 1))},
		"a thread's timer":           {now: signalBit(rt), timers: timers(none, posix(rt, sigevThreadID, 9, 0)), tid: 9, want: "34 -2 "},
		"another thread's timer":     {now: signalBit(rt), timers: timers(none, posix(rt, sigevThreadID, 8, 1)), tid: 9, want: "34 0 "},
		"signals of processes":       {now: signalBit(unix.SIGUSR1) | signalBit(unix.SIGUSR2), timers: timers(none), want: "10 0 12 0 "},
		"signals that stop and kill": {now: signalBit(unix.SIGKILL) | signalBit(unix.SIGSTOP), timers: timers(none)},
		"no timers, as of a zombie":  {now: signalBit(unix.SIGCHLD), want: "17 0 "},
		"an entry that is too short": {now: signalBit(unix.SIGUSR1), noted: []*siginfo.SiginfoEntry{{Siginfo: []byte{10}}}, want: "10 0 "},
		"an entry of a mad signal":   {now: signalBit(unix.SIGUSR1), noted: []*siginfo.SiginfoEntry{info(200, 0)}, want: "10 0 "},
		"the last of all signals":    {now: 1 << 63, want: "64 0 "},
		"a noted signal, and a late": {now: signalBit(rt) | signalBit(unix.SIGHUP), noted: []*siginfo.SiginfoEntry{info(rt, 0)}, want: "1 0 "},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, s := range signalsSinceDump(test.now, &siginfo.SignalQueueEntry{Signals: test.noted}, test.timers, test.tid) {
				b := s.GetSiginfo()
				fmt.Fprint(&got, binary.LittleEndian.Uint32(b), " ", int32(binary.LittleEndian.Uint32(b[8:])), " ")
				if len(b) != siSize {
					t.Errorf("the siginfo has %d bytes, want 128", len(b))
				}
			}
			if got.String() != test.want {
				t.Errorf("signals added to the image = %q, want %q", got.String(), test.want)
			}
		})
	}
}

func TestWithWaiting(t *testing.T) {
	c := core{criucore.CoreEntry{
		Mtype: criucore.CoreEntry_X86_64.Enum(), ThreadCore: &criucore.ThreadCoreEntry{FutexRla: new(uint64), FutexRlaLen: new(uint32), SchedNice: new(int32), SchedPolicy: new(uint32)},
		Tc: &criucore.TaskCoreEntry{TaskState: new(uint32), ExitCode: new(uint32), Personality: new(uint32), Flags: new(uint32), BlkSigset: new(uint64), Comm: new(string)},
	}}
	was, err := c.encodeImage()
	if err != nil {
		t.Fatal(err)
	}
	now, err := addPendingSignals(was, 7, pendingSignals{own: signalBit(unix.SIGUSR1), shared: signalBit(unix.SIGALRM)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readCore(now)
	if err != nil {
		t.Fatal(err)
	}
	signals := func(q *siginfo.SignalQueueEntry) (all []byte) {
		for _, s := range q.GetSignals() {
			all = append(all, s.GetSiginfo()[0])
		}
		return all
	}
	if own, shared := signals(got.GetThreadCore().GetSignalsP()), signals(got.GetTc().GetSignalsS()); !reflect.DeepEqual([][]byte{own, shared}, [][]byte{{10}, {14}}) {
		t.Errorf("the thread has %v, the process %v", own, shared)
	}
	again, err := addPendingSignals(now, 7, pendingSignals{own: signalBit(unix.SIGUSR1), shared: signalBit(unix.SIGALRM)}, nil)
	if err != nil || !reflect.DeepEqual(again, now) {
		t.Errorf("added twice: %v", err)
	}
	for _, bad := range [][]byte{nil, was[:11], was[:len(was)-1], append(was[:len(was):len(was)], was[8:]...)} {
		if _, err := addPendingSignals(bad, 7, pendingSignals{own: 1}, nil); err == nil {
			t.Errorf("%d bytes are taken for an image", len(bad))
		}
	}
}
