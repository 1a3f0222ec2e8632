// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestParseStatus: the text of the kernel's mqueue_read_file.
func TestParseStatus(t *testing.T) {
	for text, want := range map[string]struct {
		size     int64
		notified int
	}{
		"QSIZE:129        NOTIFY:2     SIGNO:0     NOTIFY_PID:8260  \n": {129, 8260},
		"QSIZE:0          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n": {0, 0},
	} {
		size, notified, err := parseStatus(text)
		if err != nil || size != want.size || notified != want.notified {
			t.Errorf("parseStatus(%q) = size %d, process %d, %v", text, size, notified, err)
		}
	}
	if _, _, err := parseStatus("QSIZE:1"); err == nil {
		t.Error("parseStatus accepted half of a status")
	}
}

// exampleState has messages of several priorities, an empty message, an empty queue and a full
// queue.
func exampleState() *State {
	return &State{
		Limits: Limits{"msg_default": "10", "msg_max": "12", "msgsize_default": "8192", "msgsize_max": "8192", "queues_max": "256"},
		Queues: []Queue{
			{Name: "a", UID: 12345, GID: 23456, Mode: 0o620, MaxMessages: 12, MessageSize: 16, Messages: []Message{
				{32767, []byte("urgent")}, {2, []byte("first")}, {2, []byte("second")}, {2, []byte{}}, {0, []byte("late")}, {0, bytes.Repeat([]byte{0}, 16)},
			}},
			{Name: "empty", UID: 12345, GID: 12345, Mode: 0, MaxMessages: 1, MessageSize: 8192, Messages: []Message{}},
			{Name: "full (deleted)", UID: 0, GID: 0, Mode: 0o777, MaxMessages: 2, MessageSize: 1, Messages: []Message{{1, []byte("x")}, {0, []byte("y")}}},
		},
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(Run(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes namespaces")
	}
}

func namespaceOf(t *testing.T, s *State) string {
	t.Helper()
	ns, err := NewNamespace(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return fmt.Sprintf("/proc/self/fd/%d", ns.Fd())
}

// TestCapture: restored queues are captured twice with the same result: Capture does not change them. This process's
// own limit is as before, though the queues are larger.
func TestCapture(t *testing.T) {
	needRoot(t)
	var before, after unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MSGQUEUE, nil, &before); err != nil {
		t.Fatal(err)
	}
	want := exampleState()
	where := namespaceOf(t, want)
	for range 2 {
		got, err := Capture(where)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Queues {
			if got.Queues[i].File == "" {
				t.Errorf("queue %s has no name for CRIU", got.Queues[i].Name)
			}
			got.Queues[i].File = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
	if err := unix.Prlimit(0, unix.RLIMIT_MSGQUEUE, nil, &after); err != nil || after != before {
		t.Errorf("this process's limit on queues = %+v, was %+v (%v)", after, before, err)
	}
}

// TestOwnerMaySignal: while queues are made, their owner may signal no thread of this process.
func TestOwnerMaySignal(t *testing.T) {
	needRoot(t)
	s := &State{}
	for n := range 20 {
		q := Queue{Name: fmt.Sprint(n), UID: 54321, GID: 54321, Mode: 0o600, MaxMessages: 10, MessageSize: 64}
		for range 10 {
			q.Messages = append(q.Messages, Message{Data: []byte("letter")})
		}
		s.Queues = append(s.Queues, q)
	}
	const attack = `echo begins; while :; do for t in /proc/$1/task/*; do kill -0 ${t##*/} 2>/dev/null && echo "may signal $t"; done; done`
	c := exec.Command("/bin/sh", "-c", attack, "sh", strconv.Itoa(os.Getpid()))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "begins\n" {
		t.Fatalf("first line of the owner's program = %q, %v; want begins", line, err)
	}
	for range 5 {
		namespaceOf(t, s)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err != nil || len(rest) > 0 {
		t.Errorf("the owner could signal a thread: %.300s %v", rest, err)
	}
	_ = c.Wait() // it was killed
}

// TestRestoreElsewhere: queues are made in a given namespace; names that are there already are refused.
func TestRestoreElsewhere(t *testing.T) {
	needRoot(t)
	where := namespaceOf(t, &State{})
	if err := Restore(t.Context(), where, exampleState()); err != nil {
		t.Fatal(err)
	}
	if got, err := Capture(where); err != nil || len(got.Queues) != 3 {
		t.Errorf("Capture after Restore = %+v, %v; want 3 queues", got, err)
	}
	if err := Restore(t.Context(), where, exampleState()); !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), unix.EEXIST.Error()) {
		t.Errorf("Restore a second time: %v; want EEXIST", err)
	}
	if err := Restore(t.Context(), where, &State{Limits: Limits{"../../vm/x": "1"}}); err == nil {
		t.Error("Restore wrote a limit outside of the folder")
	}
}

// TestOpenQueue: the descriptor has the flags that were asked for, as mq_open gives them, and CRIU's name leads to
// the queue.
func TestOpenQueue(t *testing.T) {
	needRoot(t)
	where := namespaceOf(t, exampleState())
	s, err := Capture(where)
	if err != nil {
		t.Fatal(err)
	}
	q := s.Find(s.Queues[0].File)
	if q == nil || q.Name != "a" || s.Find("file[0:0]") != nil {
		t.Fatalf("Find by CRIU's name = %+v, want queue a", q)
	}
	f, err := Open(where, "a", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CREAT|unix.O_EXCL, "q")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags != unix.O_RDONLY|unix.O_NONBLOCK {
		t.Errorf("flags of the open queue = %#o, %v", flags, err)
	}
	if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))); err != nil || link != "/a" {
		t.Errorf("link of the open queue = %q, %v", link, err)
	}
}

// TestOddName: a name that JSON would change is refused.
func TestOddName(t *testing.T) {
	needRoot(t)
	where := namespaceOf(t, &State{})
	if err := inNamespace(where, func() error {
		fd, err := createQueue("odd\xff", attributes{MaxMessages: 1, MessageSize: 1})
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Capture(where); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("Capture of a name that is not UTF-8: %v", err)
	}
}

// TestNotified: a queue that notifies a process is refused.
func TestNotified(t *testing.T) {
	needRoot(t)
	where := namespaceOf(t, exampleState())
	f, err := Open(where, "empty", unix.O_RDWR|unix.O_NONBLOCK, "q")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	event := [8]uint64{1: 1 << 32} // struct sigevent: sigev_notify is SIGEV_NONE
	if _, _, errno := unix.Syscall(unix.SYS_MQ_NOTIFY, f.Fd(), uintptr(unsafe.Pointer(&event)), 0); errno != 0 {
		t.Fatalf("mq_notify: %v", errno)
	}
	var notified *NotifiedError
	if _, err := Capture(where); !errors.As(err, &notified) || *notified != (NotifiedError{"empty", os.Getpid()}) {
		t.Errorf("Capture of a queue with a notification: %v; want a NotifiedError", err)
	}
}
