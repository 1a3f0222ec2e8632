// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestBoundSockets: sockets that have a file are found by their names, with the result of stat for the file.
// Connections that they accepted are not found, nor are two sockets with the same name.
func TestBoundSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it joins a network namespace")
	}
	dir := t.TempDir()
	stream, datagram, twice := filepath.Join(dir, "stream"), filepath.Join(dir, "datagram"), filepath.Join(dir, "twice")
	accepts := listenUnix(t, stream)
	near, err := net.Dial("unix", stream)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := accepts.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	log, err := net.ListenPacket("unixgram", datagram)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	abstract, err := net.Listen("unix", "@bound-sockets-test")
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	listenUnix(t, twice).SetUnlinkOnClose(false)
	if err := os.Remove(twice); err != nil {
		t.Fatal(err)
	}
	listenUnix(t, twice)

	cgroup := t.TempDir()
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := BoundSockets(t.Context(), os.Getpid(), []capsule.Program{{Cgroup: cgroup}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]BoundFile{}
	for _, name := range []string{stream, datagram} {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		want[name] = BoundFile{Device: st.Dev, Inode: st.Ino}
	}
	if !maps.Equal(all, want) {
		t.Errorf("BoundSockets = %v, want %v", all, want)
	}
	raw, err := accepts.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("the program's socket has flags %#x, %v: want O_NONBLOCK as before", flags, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func listenUnix(t *testing.T, name string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
