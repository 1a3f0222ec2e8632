// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

// listening sends the peer of each request to asked.
type listening struct {
	SrunRequests
	asked  chan Peer
	admits func(Peer) error // nil: everybody
	over   chan struct{}    // Signal returns when it is closed
}

func (l listening) Admit(who Peer) error {
	if l.admits == nil {
		return nil
	}
	return l.admits(who)
}

func (l listening) Signal(_ context.Context, who Peer, _ string, _ syscall.Signal) error {
	l.asked <- who
	<-l.over
	return nil
}

func (l listening) Srun(_ context.Context, who Peer, _ string, _ func(*os.File) error) {
	l.asked <- who
}

// callerVariable makes the test binary a caller (beCaller). The value has the path of a socket, a comma, and a number of
// connections or the path of a file. With 1 the caller opens a connection, and sends a request. With another number the
// caller opens the connections, prints "open", and waits. With a file the caller leaves descriptors of the file in the
// socket's queue (sendFile).
const callerVariable = "WARDEN_TEST_CALLER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == DoorArg {
		os.Exit(Door(os.Args[2:]))
	}
	if v := os.Getenv(callerVariable); v != "" {
		if err := beCaller(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func beCaller(what string) error {
	path, rest, _ := strings.Cut(what, ",")
	if strings.HasPrefix(rest, "/") {
		return sendFile(path, rest)
	}
	n := 0
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return err
	}
	var last *net.UnixConn
	for range n {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			return err
		}
		last = c
	}
	if n == 1 {
		_, err := last.Write(newMessage(verbSignal, "version", version, "key", "s0-1", "signal", "10").encode())
		return err
	}
	fmt.Println("open")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test is done
	return err
}

// sendFile leaves the only descriptors of a file in the queue of a socket. Then sendFile
// writes to the file by another descriptor, so that the process that closes the last of these descriptors must wait
// for the file's owner.
func sendFile(path, name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	other, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return err
	}
	packet := newMessage(verbSrun, "version", version, "key", "").encode()
	if _, _, err = c.WriteMsgUnix(packet, unix.UnixRights(slices.Repeat([]int{int(f.Fd())}, 5)...), nil); err != nil {
		return err
	}
	c.Close()
	f.Close()
	if _, err := other.WriteString("something that is to be written"); err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin) // until the test is done
	return err
}

// startServer is a Server in a folder that every user can reach.
func startServer(t *testing.T, l SrunRequests) (socket string, stop func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIP: needs root, to be several users")
	}
	dir, err := os.MkdirTemp("", "warden")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(dir, "test", nil, l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { s.Serve(ctx); close(served) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-served:
		case <-time.After(30 * time.Second):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(stop)
	return filepath.Join(dir, SrunSocket), stop
}

// placing answers a join when the task is sent SIGTERM, or is gone.
type placing struct{ Conductor }

func (placing) Join(ctx context.Context, j Join) (Admission, error) {
	select {
	case <-j.Terminated:
		return Admission{Mode: Plain, Reason: "terminated"}, nil
	case <-ctx.Done():
		return Admission{}, context.Cause(ctx)
	}
}

// TestTerminate: the plugin's message of a SIGTERM while a task waits reaches the conductor, and the join is still
// answered.
func TestTerminate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: the socket answers root's processes alone")
	}
	s, err := Listen(t.TempDir(), "test", placing{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { s.Serve(ctx); close(served) }()
	defer func() { cancel(); <-served }()
	c, err := net.DialUnix("unixpacket", nil, s.spank.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, m := range []message{newMessage(verbJoin, "version", version, "job", "7", "uid", "1001", "gid", "1001", "step", "0"), newMessage(verbTerminate)} {
		if _, err := c.Write(m.encode()); err != nil {
			t.Fatal(err)
		}
	}
	packet := make([]byte, maxMessage)
	n, err := c.Read(packet)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decodeMessage(packet[:n]); err != nil || m.verb != verbOK || m.vals["reason"] != "terminated" {
		t.Errorf("answer to the join = %q, %v; want ok with the reason terminated", packet[:n], err)
	}
}

// callerCommand returns a process of a user, which makes the calls that the parameter what names; see beCaller.
func callerCommand(uid uint32, socket, what string) *exec.Cmd {
	return callerOfGroups(uid, []uint32{uid, 777}, socket, what)
}

func callerOfGroups(uid uint32, groups []uint32, socket, what string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%s", callerVariable, socket, what))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}, Pdeathsig: syscall.SIGKILL}
	c.Stderr = os.Stderr
	return c
}

// TestPeer: the Peer describes the caller at the moment of the connection, and a process that gets the caller's PID later is
// not taken for the caller.
func TestPeer(t *testing.T) {
	l := listening{asked: make(chan Peer), over: make(chan struct{})}
	socket, _ := startServer(t, l)
	defer close(l.over)
	caller := callerCommand(54322, socket, "1")
	if err := caller.Run(); err != nil { // reaped: from here on its PID is anybody's
		t.Fatal(err)
	}
	who := <-l.asked
	if who.UID != 54322 || who.GID != 54322 || !slices.Equal(who.Groups, []uint32{777, 54322}) || who.PID != caller.Process.Pid {
		t.Errorf("peer = %+v, want uid and gid 54322 and the groups of the caller", who)
	}
	if err := who.Alive(); !errors.Is(err, errPeerGone) {
		t.Fatal(err)
	}
	// Another process has the caller's PID now.
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, who.PID-1), 0); err != nil {
		t.Skip("SKIP: cannot choose a PID: ", err)
	}
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if other.Process.Pid != who.PID {
		t.Logf("PID %d was to be %d: another process was quicker", other.Process.Pid, who.PID)
	}
	if err := who.Alive(); !errors.Is(err, errPeerGone) {
		t.Error(err)
	}
}

// TestFileThatHangs: no caller can make the daemon close a file of an owner that does not answer.
// Another user is served meanwhile, and the daemon can end.
func TestFileThatHangs(t *testing.T) {
	for _, where := range []string{"in no capsule", "in a capsule"} {
		t.Run(where, func(t *testing.T) {
			l := listening{asked: make(chan Peer, 1), over: make(chan struct{})}
			close(l.over)
			sent := make(chan struct{})
			l.admits = func(who Peer) error {
				if who.UID != 54321 {
					return nil
				}
				<-sent
				if where == "in no capsule" {
					return errors.New("the caller is in no capsule")
				}
				return nil
			}
			socket, stop := startServer(t, l)
			caller := callerCommand(54321, socket, "/")
			t.Cleanup(func() { _ = caller.Wait() }) // ends when its file is gone
			server, hangs := mountstest.ServeHanging(t)
			caller.Env[len(caller.Env)-1] += server.Path[1:]
			hold, err := caller.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer hold.Close()
			out, err := caller.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := caller.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
				t.Fatalf("first line of the caller = %q, %v; want open", line, err)
			}
			close(sent)
			if where == "in a capsule" {
				if who := <-l.asked; who.UID != 54321 {
					t.Fatalf("peer in a capsule = %+v, want uid 54321", who)
				}
			}
			select {
			case <-hangs:
			case <-time.After(30 * time.Second):
				t.Fatal("the file was not closed")
			}
			if err := callerCommand(54322, socket, "1").Run(); err != nil {
				t.Error(err)
			}
			select {
			case who := <-l.asked:
				if who.UID != 54322 {
					t.Errorf("peer after that caller = %+v, want uid 54322", who)
				}
			case <-time.After(30 * time.Second):
				t.Error("another user waits")
			}
			stop()
		})
	}
}

// TestDoorEnds: a user is served while another's request waits, also after a caller with as many groups as the kernel
// allows, and after the door was killed.
func TestDoorEnds(t *testing.T) {
	l := listening{asked: make(chan Peer), over: make(chan struct{})}
	socket, stop := startServer(t, l)
	defer stop()
	defer close(l.over)
	askAs := func(uid uint32) {
		t.Helper()
		asked := make(chan error, 1)
		go func() { asked <- callerCommand(uid, socket, "1").Run() }()
		select {
		case who := <-l.asked:
			if who.UID != uid {
				t.Errorf("peer = %+v, want the uid of the caller", who)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("user %d is not served within 20 s", uid)
		}
		if err := <-asked; err != nil {
			t.Error(err)
		}
	}
	askAs(54321) // waits until l.over is closed
	groups := make([]uint32, 65536)
	for i := range groups {
		groups[i] = 1_000_000_000 + uint32(i)
	}
	for range 3 {
		// The result of this call does not matter.
		_ = callerOfGroups(54322, groups, socket, "1").Run()
	}
	askAs(54323)

	door := doorOf(t, socket)
	if err := syscall.Kill(door, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); doorOf(t, socket) == door; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no new door")
		}
	}
	askAs(54324)
}

// doorOf returns the PID of the process that listens on a socket, or that has listened on it last.
func doorOf(t *testing.T, socket string) int {
	t.Helper()
	var c *net.UnixConn
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if c, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer c.Close()
	pid := 0
	if err := localsock.WithDescriptor(c, func(fd int) {
		if who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(who.Pid)
		}
	}); err != nil || pid == 0 {
		t.Fatal(err, pid)
	}
	return pid
}

// TestCrowd: a user that opens all possible connections and sends no packet keeps no other user out.
func TestCrowd(t *testing.T) {
	l := listening{asked: make(chan Peer), over: make(chan struct{})}
	close(l.over)
	socket, _ := startServer(t, l)
	crowd := callerCommand(54321, socket, fmt.Sprint(5*maxCalls))
	hold, err := crowd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := crowd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatalf("first line of the crowd = %q, %v; want open", line, err)
	}
	began := time.Now()
	if err := callerCommand(54322, socket, "1").Run(); err != nil {
		t.Error(err)
	}
	if who := <-l.asked; who.UID != 54322 {
		t.Errorf("peer beside the crowd = %+v, want uid 54322", who)
	}
	if d := time.Since(began); d >= patience {
		t.Errorf("the other user waited %s", d)
	}
	hold.Close()
	if err := crowd.Wait(); err != nil {
		t.Error(err)
	}
}
