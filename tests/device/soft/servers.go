// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// Servers are the device servers of a job, in processes of their own, as on several hosts.
type Servers struct {
	Members []cut.Member
	Stderr  Output // of all servers

	sockets []string
	ended   []func() // each ends a server, and may be called twice
	libs    string
}

// Output collects the output of processes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns everything that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Servers starts n device servers with so many devices each, with more flags of "proxyd device". They end with the test.
func (w *World) Servers(t testing.TB, n, devices int, flags ...string) *Servers {
	t.Helper()
	s := &Servers{libs: t.TempDir()}
	for _, name := range []string{"libsingshim-device.so", "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		if err := os.Symlink(filepath.Join(w.Dir, "libsingshim-device.so"), filepath.Join(s.libs, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		socket := filepath.Join(s.libs, fmt.Sprintf("device%d", i))
		s.sockets = append(s.sockets, socket)
		if err := s.startServer(t, w, i, socket, devices, flags); err != nil {
			t.Fatal(err, s.Stderr.String())
		}
		s.Members = append(s.Members, caller(socket+"-control"))
	}
	return s
}

// caller is the path of a control socket, and a cut.Member: the device server behind the socket.
type caller string

// dialControl connects to the control socket.
func (path caller) dialControl() (*server.Controller, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: string(path), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return server.NewController(conn), nil
}

// Exchange implements cut.Member.
func (path caller) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	c, err := path.dialControl()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Exchange(ctx, o)
}

// Status asks a server for its status, which has the counts of its devices so far.
func (s *Servers) Status(ctx context.Context, number int) (*server.Status, error) {
	c, err := caller(s.sockets[number] + "-control").dialControl()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

// Kill ends the servers before the test ends.
func (s *Servers) Kill() {
	for _, end := range s.ended {
		end()
	}
}

// startServer starts a device server and waits until it listens.
func (s *Servers) startServer(t testing.TB, w *World, number int, socket string, devices int, flags []string) error {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket + "-control", Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer l.Close() // the server has a copy of the descriptor
	l.SetUnlinkOnClose(false)
	theirs, err := l.File()
	if err != nil {
		return err
	}
	defer theirs.Close()
	told, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	args := []string{"device", "--socket", socket, "--soft", strconv.Itoa(devices), "--memory", "1G",
		"--self", strconv.Itoa(number), "--address", "127.0.0.1", "--ready", "3", "--control", "4"}
	c := exec.Command(filepath.Join(w.Dir, "proxyd"), append(args, flags...)...)
	c.Stderr = &s.Stderr
	c.ExtraFiles = []*os.File{ready, theirs}
	err = c.Start()
	ready.Close()
	if err != nil {
		return err
	}
	end := sync.OnceFunc(func() {
		c.Process.Kill()
		c.Wait()
	})
	s.ended = append(s.ended, end)
	t.Cleanup(end)
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		return errors.Join(errors.New("a device server does not start"), err)
	}
	return nil
}

// Command returns a command that runs a program under a server. The program's process group is killed when
// the test ends.
func (s *Servers) Command(t testing.TB, number int, path string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(s.libs, "libsingshim-device.so"), "LD_LIBRARY_PATH="+s.libs, "SINGULARITY_SLURM_DEVICE="+s.sockets[number])
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}
