// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// Tests that need CRIU run in a host of a test cluster:
//
//	CGO_ENABLED=0 go test -c -o DIR/criu.test ./proxyd/criu
//	minicluster up --suite forky --nodes 1 --name criu    # DIR is below /var/lib/minicluster/criu/shared
//	minicluster exec n1 --name criu -- DIR/criu.test -test.v

// user is the uid of programs. The machine needs no account with this uid.
const user = 12345

// First arguments with which the test's binary runs as another program.
const (
	initArg   = "test-init"
	dumperArg = "test-dumper"
	// A process with the filter of a dump.
	filteredArg = "test-filtered"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case initArg:
			os.Exit(beInit())
		case messagequeue.Arg:
			os.Exit(messagequeue.Run(os.Args[2:]))
		case filteredArg:
			os.Exit(tryCalls())
		case dumperArg:
			os.Exit(beDumper(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// needCRIU skips a test that this machine cannot run.
func needCRIU(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes namespaces and mounts")
	}
	if _, err := Check(testDeadline(t)); err != nil {
		var lacking *UnsupportedHost
		if errors.As(err, &lacking) {
			t.Skip("SKIP: ", err)
		}
		t.Fatal(err)
	}
}

// testDeadline bounds every wait of a test.
func testDeadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// capsule is a minimal capsule: namespaces and an init.
type capsule struct {
	t    testing.TB
	cmd  *exec.Cmd
	conn *net.UnixConn
}

// order is a request to the test's init; descriptors 0, 1 and 2 come with it unless they are opened by path.
type order struct {
	Argv     []string
	Uid      uint32
	Paths    [3]string // opened in the capsule; "" is a descriptor that was sent
	LastPID  int       // before the start, unless 0
	ReadOnly bool
}

// newCapsule makes namespaces that end with the test.
func newCapsule(t testing.TB) *capsule {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(pair[0]), "near"), os.NewFile(uintptr(pair[1]), "far")
	defer near.Close()
	defer far.Close()
	c := &capsule{t: t, cmd: exec.Command("/proc/self/exe", initArg)}
	c.cmd.ExtraFiles = []*os.File{far}
	c.cmd.Stderr = os.Stderr
	c.cmd.Dir = "/"
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	lockedStart(t, c.cmd)
	conn, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	c.conn = conn.(*net.UnixConn)
	t.Cleanup(c.endCapsule)
	c.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if n, err := c.conn.Read(make([]byte, 16)); n == 0 {
		t.Fatal("the capsule's init has died: ", err)
	}
	return c
}

// lockedStart starts from a thread that lives as long as the test's process: the death
// signal is sent when the thread ends.
func lockedStart(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	err := make(chan error)
	starter.Do(func() {
		go func() {
			runtime.LockOSThread()
			for f := range starts {
				f()
			}
		}()
	})
	starts <- func() { err <- cmd.Start() }
	if err := <-err; err != nil {
		t.Fatal(err)
	}
}

var (
	starter sync.Once
	starts  = make(chan func())
)

func (c *capsule) initPID() int { return c.cmd.Process.Pid }

func (c *capsule) endCapsule() {
	c.conn.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// startProgram starts a program and returns its PID in the capsule.
func (c *capsule) startProgram(o order, files ...*os.File) int {
	c.t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	c.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, _, err := c.conn.WriteMsgUnix(b, unix.UnixRights(fds...), nil); err != nil {
		c.t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := c.conn.Read(buf)
	if err != nil {
		c.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(string(buf[:n]), "pid %d", &pid); err != nil {
		c.t.Fatalf("init answered %q, want a PID", buf[:n])
	}
	return pid
}

// beInit is the first process of a capsule.
func beInit() int {
	runtime.LockOSThread()
	unix.CloseOnExec(3)
	if err := buildPrograms(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		return 1
	}
	unix.Write(3, []byte("up"))
	go func() {
		for {
			var status unix.WaitStatus
			if _, err := unix.Wait4(-1, &status, 0, nil); err == unix.ECHILD {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	buf, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		n, oobn, _, _, err := unix.Recvmsg(3, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return 0
		}
		fds, _ := parseRights(oob[:oobn])
		var answer string
		if pid, err := obeyOrder(buf[:n], fds); err != nil {
			answer = err.Error()
		} else {
			answer = fmt.Sprintf("pid %d", pid)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		unix.Write(3, []byte(answer))
	}
}

func buildPrograms() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, m := range []struct{ kind, target, data string }{
		{"proc", "/proc", ""}, {"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/dev/shm", "mode=1777"}, {"mqueue", "/dev/mqueue", ""},
	} {
		if err := unix.Mount(m.kind, m.target, m.kind, unix.MS_NOSUID|unix.MS_NODEV, m.data); err != nil {
			return fmt.Errorf("%s: %w", m.target, err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("clocks: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

func obeyOrder(b []byte, fds []int) (int, error) {
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return 0, err
	}
	var files [3]*os.File
	for i, path := range o.Paths {
		if path == "" {
			files[i], fds = os.NewFile(uintptr(fds[0]), "stdio"), fds[1:]
			continue
		}
		flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
		if i == 0 {
			flags = os.O_RDONLY
		}
		f, err := os.OpenFile(path, flags, 0o666)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		// Slurm opens its files as the job's user.
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			if err := f.Chown(int(o.Uid), int(o.Uid)); err != nil {
				return 0, err
			}
		}
		files[i] = f
	}
	if o.LastPID > 0 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, o.LastPID), 0); err != nil {
			return 0, err
		}
	}
	p, err := os.StartProcess(o.Argv[0], o.Argv, &os.ProcAttr{
		Dir: "/tmp", Env: []string{"PATH=/usr/bin:/bin:/usr/sbin", "LANG=C.UTF-8"}, Files: files[:],
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: o.Uid, Gid: o.Uid, Groups: []uint32{o.Uid, otherGroup}}},
	})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}
