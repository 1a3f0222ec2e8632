// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

const (
	attackArg = "capsule-attack"
	makerArg  = "capsule-maker"
)

// attackInit attacks init as a user in the capsule could. attackInit prints each deviation from init's expected
// behaviour, and then "done".
func attackInit(args []string) int {
	for range 300 {
		c, err := connectInit()
		if err != nil {
			fmt.Println("connect:", err)
			return 1
		}
		// For any packet init closes the connection, or has closed it already.
		localsock.SendNow(c, bytes.Repeat([]byte{0xff}, 4096))
		localsock.SendNow(c, message{kind: kindStart, name: "mine", first: 302}.encode(), 0, 1, 2)
		localsock.SendNow(c, message{kind: kindSignal, value: 9}.encode())
		flood := make([]int, 200)
		for range 20 {
			localsock.SendNow(c, []byte("x"), flood...)
		}
		if n, err := c.Read(make([]byte, 100)); n > 0 {
			fmt.Println("init answered:", n, err)
		}
		c.Close()
	}
	if len(args) > 0 {
		if c, err := net.Dial("unixpacket", args[0]); err == nil {
			fmt.Println("the control socket can be reached")
			c.Close()
		}
	}
	// Connections that are never read from, held open.
	for range 500 {
		if c, err := connectInit(); err == nil {
			defer c.Close()
		}
	}
	fmt.Println("done")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

func connectInit() (*net.UnixConn, error) {
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: "@" + wardenSocket})
}

func countDescriptors(t *testing.T, c *Capsule) int {
	t.Helper()
	names, err := readNames(fmt.Sprintf("/proc/%d/fd", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestAttackFromInside(t *testing.T) {
	c := newCapsule(t)
	self := filepath.Join(tools.dir, "attack")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, b, 0o755); err != nil {
		t.Fatal(err)
	}
	victim := task{c: c, name: "victim", argv: shellCommand(family)}.startTask(t)
	victim.out.expectLine("ready")
	before := countDescriptors(t, c)
	foe := task{c: c, name: "foe", argv: []string{self, attackArg, filepath.Join(c.Dir(), controlName)}}.startTask(t)
	// During the attack, init still serves other wardens.
	if _, stderr, status := (task{c: c, argv: []string{"true"}}).runTask(t); status != 0 {
		t.Errorf("status %#x during the attack: %s", int(status), stderr)
	}
	for {
		line, ok := foe.out.nextLine()
		if line == "done" {
			break
		}
		if !ok {
			t.Fatal("the attacker died")
		}
		t.Errorf("the attacker reports: %v", line)
	}
	victim.checkEcho("still here")
	if after := countDescriptors(t, c); after > before+3 { // a warden, a request, a refused connection
		t.Errorf("init had %d descriptors, now %d", before, after)
	}
	foe.in.Close()
	if status := foe.waitForEnd(); status != 0 {
		t.Errorf("the attacker's status %#x", int(status))
	}
}

// inNetworkOf calls f on a thread in c's network namespace. The thread is outside of c's PID namespace and
// belongs to root, as a warden.
func inNetworkOf(t *testing.T, c *Capsule, f func()) {
	t.Helper()
	ns, err := c.Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	defer localsock.CloseAll(ns)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		err := unix.Setns(int(ns[1].Fd()), unix.CLONE_NEWNET)
		defer func() { done <- err }() // also when the test fails in f
		if err == nil {
			f()
		}
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// standIn returns a pidfd of a process in the place of a warden of root's. Init checks the pidfd, and the
// test itself has not joined the capsule.
func standIn(t *testing.T, c *Capsule) int {
	t.Helper()
	k := task{c: c, uid: rootUID}
	cmd := k.taskCommand(t)
	cmd.Args = append(cmd.Args[:len(cmd.Args)-len(k.wardenCommand())], "/bin/sh", "-c", "echo; exec sleep 1000") // no warden
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	out.Read(make([]byte, 1)) // the process has joined the capsule
	return pidfdOf(t, cmd.Process.Pid)
}

func pidfdOf(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestLyingWarden: a user can make his own warden send any message.
func TestLyingWarden(t *testing.T) {
	c := newCapsule(t, func(s *Spec) { s.Owner = 0 })
	// The program belongs to root, because the connections of this test do, too.
	r := startRoot(t, c, "roots")
	defer r.in.Close()
	p := programNamed(t, c, "roots")
	stewardFD, err := c.Pidfd(testDeadline(t), "roots")
	if err != nil {
		t.Fatal(err)
	}
	defer stewardFD.Close()
	steward := localsock.Descriptors([]*os.File{stewardFD})[0]
	outside, init, first := pidfdOf(t, os.Getpid()), pidfdOf(t, c.PID()), pidfdOf(t, hostPID(t, c, p.First))
	self, foreign := standIn(t, c), pidfdOf(t, startOutside(t).Process.Pid)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file := int(null.Fd())
	many := make([]int, 250)
	for i := range many {
		many[i] = file
	}
	start := message{kind: kindStart, name: "foe", first: int32(p.First)}.encode()
	restore := message{kind: kindRestore, name: "foe"}.encode()
	before := countDescriptors(t, c)
	for _, k := range []struct {
		name   string
		packet []byte
		fds    []int
		want   syscall.Errno
	}{
		{"no descriptor", start, nil, syscall.EPROTO},
		{"one descriptor", start, []int{steward}, syscall.EPROTO},
		{"three descriptors", start, []int{steward, self, self}, syscall.EPROTO},
		{"many descriptors", start, many, 0},
		{"no pidfd", start, []int{file, self}, syscall.EBADF},
		{"a process outside", start, []int{outside, self}, syscall.ESRCH},
		{"init itself", start, []int{init, self}, syscall.EPERM},
		{"first process of another program", start, []int{first, self}, syscall.EPERM},
		{"steward of another program", start, []int{steward, self}, syscall.EEXIST},
		{"a first process that is not its child", message{kind: kindStart, name: "foe", first: int32(p.PID)}.encode(), []int{steward, self}, syscall.EPERM},
		{"name of another program", message{kind: kindRestore, name: "roots"}.encode(), []int{file, file, file, self}, syscall.EEXIST},
		{"itself: no pidfd", restore, []int{file, file, file, file}, syscall.EBADF},
		{"itself: a process that has not joined", restore, []int{file, file, file, outside}, syscall.EPERM},
		{"itself: another user's", restore, []int{file, file, file, foreign}, syscall.EPERM},
		{"itself: a process of the capsule", restore, []int{file, file, file, first}, syscall.EPERM},
		{"itself: init", restore, []int{file, file, file, init}, syscall.EPERM},
		{"short", start[:63], nil, syscall.EPROTO},
		{"long", append(start, 0), nil, 0},
		{"bad kind", message{kind: 99}.encode(), nil, syscall.EPROTO},
		{"bad signal", message{kind: kindSignal, value: 65}.encode(), nil, syscall.EPROTO},
		{"a message that only init sends", message{kind: kindStatus}.encode(), nil, syscall.EPROTO},
	} {
		t.Run(k.name, func(t *testing.T) {
			inNetworkOf(t, c, func() {
				s, err := connectInit()
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if err := localsock.SendNow(s, k.packet, k.fds...); err != nil {
					t.Error(err)
				}
				b := make([]byte, messageSize)
				n, err := s.Read(b)
				if k.want == 0 { // the connection is closed without an answer
					if n == messageSize && syscall.Errno(b[8]) != syscall.EPROTO {
						t.Errorf("init answered %x, want EPROTO or no answer", b)
					}
					return
				}
				if n != messageSize || b[4] != kindRefused || syscall.Errno(b[8]) != k.want {
					t.Errorf("answer %x, %v; want refused, %v", b[:n], err, k.want)
				}
				if n, _ := s.Read(b); n != 0 {
					t.Error("the connection is still open after the refusal")
				}
			})
		})
	}
	t.Run("a signal without a program", func(t *testing.T) {
		inNetworkOf(t, c, func() {
			s, err := connectInit()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			localsock.SendNow(s, message{kind: kindSignal, value: 9}.encode())
		})
	})
	r.checkEcho("still here")
	if after := countDescriptors(t, c); after > before+1 {
		t.Errorf("init had %d descriptors, now %d", before, after)
	}
}

// startOutside starts a process of the user's that is outside of all capsules.
func startOutside(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := task{argv: []string{"sleep", "1000"}}.taskCommand(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// startRoot starts a program of root's.
func startRoot(t *testing.T, c *Capsule, name string) *running {
	t.Helper()
	r := task{c: c, name: name, uid: rootUID, argv: shellCommand(family)}.startTask(t)
	r.out.expectLine("ready")
	return r
}

// TestForeignWarden: init ignores a process of another user in the capsule's network namespace.
func TestForeignWarden(t *testing.T) {
	c := newCapsule(t)
	k := task{c: c, uid: user + 1, argv: []string{"true"}}
	_, stderr, status := k.runTask(t)
	if status != 125<<8 {
		t.Errorf("status %#x, stderr %q", int(status), stderr)
	}
	if want := "singularity: the capsule's init does not answer: "; len(stderr) < len(want) || stderr[:len(want)] != want {
		t.Errorf("the foreign warden's stderr = %q, want that init does not answer", stderr)
	}
	becomesEmpty(t, c)
}

// TestSlowWatcher: init closes the connection of a maker that does not read, and does not wait for the maker.
func TestSlowWatcher(t *testing.T) {
	c := newCapsule(t)
	s, err := localsock.Dial(filepath.Join(c.Dir(), controlName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := exchangePackets(s, request{Op: opWatch}); err != nil {
		t.Fatal(err)
	}
	r := task{c: c, argv: shellCommand("trap : TERM; echo ready; while :; do read -r line && exit; done")}.startTask(t)
	r.out.expectLine("ready")
	self := standIn(t, c)
	inNetworkOf(t, c, func() {
		// Each connection makes two events, unless init is behind and has no room for the connection.
		for i := 0; !hungUp(s); i++ {
			if i == 100_000 {
				t.Error("a watcher that does not read is not cut off")
				return
			}
			w, err := connectInit()
			if errors.Is(err, syscall.EAGAIN) {
				continue // init's queue is full; a warden's connect would wait
			}
			if err != nil {
				t.Error(err)
				return
			}
			localsock.SendNow(w, message{kind: kindRestore, name: fmt.Sprint("w", i)}.encode(), 0, 1, 2, self)
			w.Close()
		}
	})
	if _, err := c.Programs(testDeadline(t)); err != nil {
		t.Error(err)
	}
	s.SetReadDeadline(time.Now().Add(10 * time.Second))
	n := 0
	for ; err == nil; n++ {
		_, _, err = receiveReply(s)
	}
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		t.Errorf("%d events, then %v", n, err)
	}
	fmt.Fprintln(r.in)
	r.waitForEnd()
}

// hungUp tells whether the peer has closed the connection, even if there are bytes left to read.
func hungUp(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	hup := false
	raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		unix.Poll(fds, 0)
		hup = fds[0].Revents&unix.POLLHUP != 0
	})
	return hup
}

// TestControlIsRoots: the mode of the control socket, and init's answer to another user that has reached
// the socket.
func TestControlIsRoots(t *testing.T) {
	c := newCapsule(t)
	for path, want := range map[string]os.FileMode{c.Dir(): 0o700, filepath.Join(c.Dir(), controlName): 0o600, filepath.Join(c.Dir(), recordName): 0o600} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, error %v, want %v", path, st.Mode(), err, want)
		}
	}
	for _, packet := range []string{"", "{", `{"Op":"nosuch"}`, `{"Op":"signal","Name":"x","Signal":99}`, `{"Op":"release"}`, `[]`} {
		s, err := localsock.Dial(filepath.Join(c.Dir(), controlName))
		if err != nil {
			t.Fatal(err)
		}
		s.Write([]byte(packet))
		if got, _, err := receiveReply(s); err == nil {
			t.Errorf("init's reply to %q = %+v, want an error", packet, got)
		}
		s.Close()
	}
	if _, err := c.Programs(testDeadline(t)); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range []message{{kind: kindStart, name: "0.1", first: 302}, {kind: kindRestore, name: "batch"}, {kind: kindSignal, value: 15}} {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			if !errors.Is(err, errMessage) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(m.encode(), b) {
			t.Errorf("%x decodes to %+v", b, m)
		}
	})
}

// TestFull: a capsule with the largest number of programs reports all of them, in as many packets as are
// needed.
func TestFull(t *testing.T) {
	c := newCapsule(t)
	self := standIn(t, c)
	inNetworkOf(t, c, func() {
		e := watchEvents(t, c)
		for i := range maxPrograms + 1 {
			if i == maxPrograms {
				for range maxPrograms {
					e.nextEvent(Waiting)
				}
			}
			w, err := connectInit()
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			localsock.SendNow(w, message{kind: kindRestore, name: fmt.Sprintf("%047d", i)}.encode(), 0, 1, 2, self)
			if i < maxPrograms {
				continue
			}
			b := make([]byte, messageSize)
			if n, err := w.Read(b); n != messageSize || syscall.Errno(b[8]) != syscall.EAGAIN {
				t.Errorf("a connection above the limit: %x %v", b[:n], err)
			}
		}
		e = watchEvents(t, c) // the first events of the new watcher come all at once
		for range maxPrograms {
			e.nextEvent(Waiting)
		}
		all, err := c.Programs(testDeadline(t))
		if err != nil || len(all) != maxPrograms {
			t.Errorf("Programs returned %d programs, %v, want the largest number", len(all), err)
		}
		for i, p := range all {
			if p.Name != fmt.Sprintf("%047d", i) || !p.Waiting || p.Cgroup == "" {
				t.Fatalf("program %d is %+v, want it waiting, in order, with a cgroup", i, p)
			}
		}
	})
}
