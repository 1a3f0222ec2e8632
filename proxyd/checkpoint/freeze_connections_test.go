// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVisited: a connection to a device server is seen from connect on, whether the server has accepted the connection or
// not, until both ends are closed.
func TestVisited(t *testing.T) {
	path := filepath.Join(t.TempDir(), deviceSocket)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look := func(want bool, when string) {
		t.Helper()
		b, err := os.ReadFile("/proc/self/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		var ours strings.Builder // the namespace is not only this test's
		for line := range strings.Lines(string(b)) {
			if strings.HasSuffix(strings.TrimSpace(line), path) {
				ours.WriteString(line)
			}
		}
		if got := hasDeviceConnection(ours.String()); got != want {
			t.Errorf("%s: connected: %v\n%s", when, got, &ours)
		}
	}
	look(false, "before")
	client, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	look(true, "connected")
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	look(true, "taken")
	client.Close()
	look(true, "until the server has seen that")
	server.Close()
	look(false, "afterwards")
	if hasDeviceConnection("ffff: 00000003 00000000 00000000 0005 03 12\nffff: 00000003 00000000 00000000 0001 03 12 /x/device\n") {
		t.Error("another socket counts as a connection to the device server")
	}
}
