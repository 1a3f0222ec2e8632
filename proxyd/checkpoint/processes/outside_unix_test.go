// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShowName: any bytes that a user binds a socket to are shown as text.
func TestShowName(t *testing.T) {
	for name, want := range map[string]string{
		"":                        "without a name",
		"/run/dbus/socket\x00":    "/run/dbus/socket",
		"/run/a b":                "/run/a b",
		"\x00/tmp/.X11-unix/X0":   "@/tmp/.X11-unix/X0",
		"/tmp/\x1b[2J\n":          `"/tmp/\x1b[2J\n"`,
		"/tmp/\xff":               `"/tmp/\xff"`,
		"\x00a\x00b":              `"@a\x00b"`,
		"/tmp/\u202egnp.socket":   `"/tmp/\u202egnp.socket"`,
		"/var/lib/sss/pipes/nss":  "/var/lib/sss/pipes/nss",
		"\x00\x00\x00\x00\x00abc": `"@\x00\x00\x00\x00abc"`,
	} {
		if got := showName(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestUnixSockets: the kernel's answer has the sockets of this process, with their names and other ends.
func TestUnixSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it joins a network namespace")
	}
	name := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	log, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name + "log"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	all, err := unixSockets("/proc/thread-self/ns/net", func(unixSocket) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := all[linkOf(t, near.(*net.UnixConn))], all[linkOf(t, far)], all[linkOf(t, log)]
	if a.peer != b.inode || b.peer != a.inode || a.inode == 0 || showName(b.name) != name || a.datagram || a.name != "" {
		t.Errorf("connected sockets %+v and %+v: want each as the peer of the other", a, b)
	}
	if !c.datagram || c.peer != 0 || showName(c.name) != name+"log" {
		t.Errorf("the datagram socket: %+v", c)
	}
}

// TestHolders: the process that has the other end is found, unless that is to be left out, or there is no time.
func TestHolders(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ends[1]))
	if err != nil {
		t.Fatal(err)
	}
	connections := map[string][]unixConnection{link: {{}}}
	if found, err := findHolders(t.Context(), connections, nil); err != nil || found[link] != os.Getpid() {
		t.Errorf("findHolders = %v, %v; want this process", found, err)
	}
	if found, err := findHolders(t.Context(), connections, map[int]bool{os.Getpid(): true}); err != nil || len(found) != 0 {
		t.Errorf("findHolders without this process = %v, %v; want none", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := findHolders(ctx, connections, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("findHolders with a cancelled ctx: %v", err)
	}
}

func linkOf(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var link string
	if e := raw.Control(func(fd uintptr) { link, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }); e != nil || err != nil {
		t.Fatalf("read the link of the socket: %v, %v", e, err)
	}
	return link
}

// FuzzUnixSocket: no answer makes the parser fail badly.
func FuzzUnixSocket(f *testing.F) {
	f.Add([]byte{unix.AF_UNIX, unix.SOCK_DGRAM, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, unixDiagPeer, 0, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseUnixSocket(b); err == nil && len(b) < unixDiagSize {
			t.Errorf("%+v of %d bytes", s, len(b))
		}
	})
}
