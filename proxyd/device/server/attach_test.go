// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// childVariable has this test's program attach to a socket and play the part that partVariable names.
const (
	childVariable = wire.DeviceEnv
	partVariable  = "DEVICE_SERVER_TEST_PART"
)

// startListening has a server listen.
func startListening(t *testing.T, s *Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return path
}

// askRing asks for a ring as a shim does.
func askRing(path string) (ring *os.File, keep *os.File, err error) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	return askForRing(c)
}

// askForRing asks for a ring over a connection, which stays open.
func askForRing(c *net.UnixConn) (ring *os.File, keep *os.File, err error) {
	theirs, keep, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	probe := new(uint32)
	*probe = 0x44474e53
	b := binary.LittleEndian.AppendUint32(nil, 0x44474e53)
	b = binary.LittleEndian.AppendUint32(b, 2)
	b = binary.LittleEndian.AppendUint64(b, uint64(uintptr(unsafe.Pointer(probe))))
	b = binary.LittleEndian.AppendUint64(b, 1<<64-1) // neither variable
	if _, _, err := c.WriteMsgUnix(b, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		return nil, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := c.ReadMsgUnix(b, oob)
	if why := unix.Errno(binary.LittleEndian.Uint32(b)); err == nil && n == 16 && why != 0 {
		return nil, nil, why
	}
	if err != nil || n != 16 {
		return nil, nil, fmt.Errorf("%d bytes, %v: %w", n, b, errors.Join(err, unix.EPROTO))
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || len(messages) != 1 {
		return nil, nil, errors.Join(err, unix.EPROTO)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, nil, err
	}
	unix.CloseOnExec(fds[0])
	if *probe == 0 {
		return nil, nil, unix.EPROTO
	}
	return os.NewFile(uintptr(fds[0]), "ring"), keep, nil
}

// TestChild is the child process of the tests below. In a test run of its own, TestChild returns at once.
func TestChild(t *testing.T) {
	path, part := os.Getenv(childVariable), os.Getenv(partVariable)
	if part == "" {
		return
	}
	ring, keep, err := askRing(path)
	if err != nil {
		t.Fatal(err)
	}
	c := connectRing(t, ring, 0)
	ring.Close()
	c.beginContext(ctxA, 0)
	a := c.alloc(1 << 20)
	c.must("cuStreamCreate", uint64(streamA), uint32(1))
	switch part {
	case "busy": // for ever
		c.post("cuStreamWaitValue32_v2", uint64(streamA), a, uint32(1), uint32(1))
		c.post("cuMemsetD8Async", a, uint8(1), uint64(1<<20), uint64(streamA))
		fmt.Println("ready")
		c.call("cuStreamSynchronize", uint64(streamA))
	case "exec":
		fmt.Println("ready")
		if err := unix.Exec("/bin/cat", []string{"cat"}, os.Environ()); err != nil {
			t.Fatal(err)
		}
	case "close": // as a program that closes all unknown descriptors
		keep.Close()
		fmt.Println("ready")
		for range 50 {
			c.must("cuCtxSynchronize")
		}
		fmt.Println("done")
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			t.Fatal(err)
		}
	case "nonsense":
		fmt.Println("ready")
		c.post("cuMemFree_v2", uint64(1), uint64(2), uint64(3))
		if r, _ := c.call("cuCtxSynchronize"); r != statusGone {
			t.Errorf("cuCtxSynchronize = %d, want statusGone", r)
		}
		fmt.Println("dropped")
	}
}

// startChild starts the program above and waits for its first line.
func startChild(t *testing.T, path, part string) (cmd *exec.Cmd, in io.Closer, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childVariable+"="+path, partVariable+"="+part)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	out = bufio.NewReader(stdout)
	expectLine(t, out, "ready")
	return cmd, stdin, out
}

func expectLine(t *testing.T, out *bufio.Reader, want string) {
	t.Helper()
	line, err := out.ReadString('\n')
	if strings.TrimSpace(line) != want {
		t.Fatalf("the program says %q (%v), not %q", line, err, want)
	}
}

// onlyProcess returns the process of a server that has a single process.
func onlyProcess(t *testing.T, s *Server) *process {
	t.Helper()
	all := s.allProcesses()
	if len(all) != 1 {
		t.Fatalf("%d processes", len(all))
	}
	return all[0]
}

// leavesNothing waits for the end of a process and checks that the process has no memory left on the devices.
func leavesNothing(t *testing.T, s *Server, p *process) {
	t.Helper()
	<-p.gone
	for i, d := range s.devices {
		if !d.Place().TimeSlices.IsEmpty() {
			t.Errorf("device %d: spaces are left", i)
		}
	}
}

// TestKilled: a process that is killed in the middle of its work frees everything at once.
func TestKilled(t *testing.T) {
	s := newServer(t, 2)
	path := startListening(t, s)
	for range 3 {
		cmd, _, _ := startChild(t, path, "busy")
		p := onlyProcess(t, s)
		cmd.Process.Kill()
		leavesNothing(t, s, p)
	}
}

// TestExec: a process that executes another program is gone, though its number lives on.
func TestExec(t *testing.T) {
	s := newServer(t, 1)
	cmd, _, _ := startChild(t, startListening(t, s), "exec")
	p := onlyProcess(t, s)
	leavesNothing(t, s, p)
	if err := cmd.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the other program: %v", err)
	}
}

// TestClosedPipe: a process that has closed its end of the pipe is served on, and its end is noticed.
func TestClosedPipe(t *testing.T) {
	s := newServer(t, 1)
	cmd, in, out := startChild(t, startListening(t, s), "close")
	p := onlyProcess(t, s)
	expectLine(t, out, "done")
	select {
	case <-p.gone:
		t.Error("a process that has closed its descriptors was dropped")
	default:
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	leavesNothing(t, s, p)
}

// TestNonsense: a process that sends messages no shim sends is dropped, and other processes are still served.
func TestNonsense(t *testing.T) {
	s := newServer(t, 1)
	other, cs := attachProcess(t, s, 1)
	_, _, out := startChild(t, startListening(t, s), "nonsense")
	expectLine(t, out, "dropped")
	waitFor(t, "the process that wrote nonsense is removed", func() bool { return len(s.allProcesses()) == 1 })
	cs[0].must("cuDeviceGetCount")
	if got := onlyProcess(t, s); got != other {
		t.Error("a process that wrote no nonsense was dropped")
	}
}

// TestStrangers: a peer that is no shim gets no answer, and other processes do not wait for it.
func TestStrangers(t *testing.T) {
	s := newServer(t, 1)
	path := startListening(t, s)
	dial := func() *net.UnixConn {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial() // a connection without a message
	for _, b := range [][]byte{{}, []byte("hello"), make([]byte, 16), make([]byte, 4096)} {
		c := dial()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 64)); n != 0 || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("a stranger sent %d bytes and got %d (%v), want a closed connection", len(b), n, err)
		}
	}
	_, _, out := startChild(t, path, "close")
	expectLine(t, out, "done")
}

// TestConnected: the server keeps its end of a connection as long as the process keeps its own, whether the process is attached or is to ask again.
func TestConnected(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		s := newServer(t, 1)
		if stopped {
			s.state.admission.Lock()
			defer s.state.admission.Unlock()
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ends [2]*net.UnixConn
		for i, fd := range pair {
			f := os.NewFile(uintptr(fd), "end")
			c, err := net.FileConn(f)
			f.Close()
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = c.(*net.UnixConn)
		}
		over := make(chan error, 1)
		go func() { over <- s.attachProgram(ends[0]) }()
		ring, keep, err := askForRing(ends[1])
		switch {
		case stopped && !errors.Is(err, unix.ERESTART):
			t.Fatal("stopped: ", err)
		case !stopped && err != nil:
			t.Fatal(err)
		case !stopped:
			ring.Close()
			defer keep.Close()
		}
		select {
		case err := <-over:
			t.Errorf("stopped %v: the connection is over: %v", stopped, err)
		case <-time.After(20 * time.Millisecond): // the connection is to stay
		}
		ends[1].Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

// TestMapped: how the server reads from /proc whether a process has its ring.
func TestMapped(t *testing.T) {
	const ring = "7f00-7f08 rw-s 00000000 00:01 4711                       /memfd:singularity-ring (deleted)\n"
	for _, tt := range []struct {
		name, maps string
		want       bool
	}{
		{"there", "00-01 r-xp 0 08:01 12 /bin/cat\n" + ring, true},
		{"another inode", strings.Replace(ring, "4711", "4712", 1), false},
		{"a file with this inode", strings.Replace(ring, "/memfd:", "/tmp/", 1), false},
		{"anonymous", "7f00-7f08 rw-p 00000000 00:00 0\n", false},
		{"nothing", "", false},
	} {
		if got := isMapped(tt.maps, 4711); got != tt.want {
			t.Errorf("%s: isMapped = %v", tt.name, got)
		}
	}
}
