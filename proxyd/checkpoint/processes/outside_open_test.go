// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenOutside: a descriptor is duplicated only if the descriptor is the socket that was found, of a process that is still in the
// program's cgroup. A process that has got the PID since, and has a file of a server in the socket's place, is left alone.
func TestOpenOutside(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", socket.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	cgroups := map[bool]string{}
	for here, pid := range map[bool]int{true: os.Getpid(), false: os.Getppid()} {
		cgroups[here] = t.TempDir()
		if err := os.WriteFile(filepath.Join(cgroups[here], "cgroup.procs"), fmt.Appendln(nil, pid), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		socket OutsideSocket
		want   error
	}{
		"the socket":      {OutsideSocket{Link: link, cgroup: cgroups[true], fd: int(socket.Fd())}, nil},
		"a file":          {OutsideSocket{Link: link, cgroup: cgroups[true], fd: int(file.Fd())}, errOtherKind},
		"another socket":  {OutsideSocket{Link: "socket:[1]", cgroup: cgroups[true], fd: int(socket.Fd())}, errOtherKind},
		"closed":          {OutsideSocket{Link: link, cgroup: cgroups[true], fd: 1 << 20}, unix.ESRCH},
		"another process": {OutsideSocket{Link: link, cgroup: cgroups[false], fd: int(socket.Fd())}, unix.ESRCH},
	} {
		c.socket.pid = os.Getpid()
		f, err := c.socket.Open()
		if !errors.Is(err, c.want) || (f == nil) != (c.want != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if f != nil {
			f.Close()
		}
	}
}
