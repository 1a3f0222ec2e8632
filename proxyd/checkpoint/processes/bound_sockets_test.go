// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
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

	all := FilesByName(findBound(t))
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

// findBound returns the sockets that this process has bound.
func findBound(t *testing.T) []BoundSocket {
	t.Helper()
	cgroup := t.TempDir()
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := BoundSockets(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: cgroup}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMovedSockets: the name that a socket's file has is found if it is not the socket's own, also in a large folder. A file
// without a name, a file that keeps the first name beside another, and a link in the place of a file are no such files.
func TestMovedSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it joins a network namespace")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for n := range 3000 {
		if err := os.WriteFile(at(fmt.Sprint(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := func(from, to string) error { return errors.Join(os.Link(at(from), at(to)), os.Remove(at(from))) }
	rename := func(from, to string) error { return os.Rename(at(from), at(to)) }
	long := strings.Repeat("x", maxSocketName+1-len(dir)-1)
	for name, test := range map[string]struct {
		move func(name string) error
		want string
	}{
		"linked":  {func(name string) error { return link(name, "control") }, at("control")},
		"twice":   {func(name string) error { return errors.Join(os.Link(at(name), at("b")), link(name, "a")) }, at("a")},
		"renamed": {func(name string) error { return rename(name, "renamed-to") }, at("renamed-to")},
		"moved":   {func(name string) error { return rename(name, "other/moved-to") }, at("other/moved-to")},
		"word":    {func(name string) error { return rename(name, name+removedWord) }, at("word" + removedWord)},
		"removed": {func(name string) error { return os.Remove(at(name)) }, ""},
		"stays":   {func(name string) error { return os.Link(at(name), at("beside")) }, ""},
		"symlink": {func(name string) error {
			return errors.Join(link(name, "other/far"), os.Symlink("other/far", at("near")))
		}, ""},
		"long":  {func(name string) error { return rename(name, long) }, ""},
		"bytes": {func(name string) error { return rename(name, "\xff") }, ""},
	} {
		listenUnix(t, at(name)).SetUnlinkOnClose(false)
		if err := test.move(name); err != nil {
			t.Fatal(err)
		}
		found := findBound(t)
		i := slices.IndexFunc(found, func(s BoundSocket) bool { return s.Name == at(name) })
		if i < 0 {
			t.Fatalf("%s: no such socket in %v", name, found)
		}
		if got := found[i]; got.Moved != test.want || got.Program != "batch" {
			t.Errorf("%s: moved to %q, want %q", name, got.Moved, test.want)
		}
	}
}

// TestServedFolder: a folder of a user's server, which does not answer, is not searched, also where the server is mounted
// within a folder that is searched.
func TestServedFolder(t *testing.T) {
	server := mountstest.Serve(t, 1000)
	server.SilenceAll()
	table, err := mounts.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Dir(server.Folder)
	listenUnix(t, filepath.Join(parent, "socket"))
	st, err := mounts.Stat(filepath.Join(parent, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	file := BoundFile{st.Device, st.Inode}
	search := folderSearch{init: os.Getpid(), table: table, left: maxSearched, names: map[string]map[BoundFile]string{}}
	for dir, want := range map[string]string{server.Folder: "", parent: "socket"} {
		if names, err := search.namesIn(t.Context(), dir, map[BoundFile]bool{file: true}); err != nil || names[file] != want {
			t.Errorf("names in %s: %v, %v", dir, names, err)
		}
	}
}

// TestReplaceName: a relative name stays relative, and a name that leads through links leads there again.
func TestReplaceName(t *testing.T) {
	for _, c := range []struct{ name, at, base, want string }{
		{"/tmp/s.x", "/tmp/s.x (deleted)", "s", "/tmp/s"},
		{"/link/s.x", "/tmp/s.x (deleted)", "s", "/link/s"},
		{"s.x", "/tmp/s.x (deleted)", "s", "s"},
		{"dir/s.x", "/tmp/dir/s.x (deleted)", "s", "dir/s"},
		{"/tmp/s.x", "/tmp/s", "s", "/tmp/s"},
		{"/link/s.x", "/tmp/s", "s", "/tmp/s"},
		{"/s.x", "/s", "s", "/s"},
	} {
		if got := replaceName(c.name, c.at, c.base); got != c.want {
			t.Errorf("replaceName(%q, %q, %q) = %q, want %q", c.name, c.at, c.base, got, c.want)
		}
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
