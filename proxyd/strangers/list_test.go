// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package strangers

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// fakeConn is a connection of a host that notes that it was closed.
type fakeConn struct {
	net.Conn
	name, host string
	closed     bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.host), 7))
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// TestList tells which connections of a List of three are closed. A word such as a1 adds a connection of the host a,
// and -a1 removes it.
func TestList(t *testing.T) {
	hosts := map[byte]string{
		'a': "10.0.0.1", 'b': "10.0.0.2", 'c': "10.0.0.3", 'A': "::ffff:10.0.0.1", 'x': "2001:db8::1", 'y': "2001:db8::2", 'z': "2001:db8:0:1::1",
	}
	for name, tc := range map[string]struct{ events, closed string }{
		"room for all":                      {"a1 b1 c1", ""},
		"of one host the oldest":            {"a1 a2 a3 a4 a5", "a1 a2"},
		"the host with the most":            {"b1 a1 a2 c1", "a1"},
		"not the other host's":              {"b1 a1 a2 a3 a4 a5", "a1 a2 a3"},
		"of equal hosts the oldest":         {"b1 b2 a1 a2", "b1"},
		"those that left do not count":      {"a1 a2 a3 -a1 -a2 b1 b2", ""},
		"removed twice":                     {"a1 -a1 -a1 a2 a3 a4", ""},
		"IPv4 as IPv6":                      {"a1 A1 b1 c1", "a1"},
		"a host's IPv6 addresses":           {"b1 x1 y1 c1", "x1"},
		"IPv6 addresses of different hosts": {"x1 z1 b1 c1", "x1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(3)
			conns := map[string]*fakeConn{}
			var order []string
			for _, word := range strings.Fields(tc.events) {
				if left, removes := strings.CutPrefix(word, "-"); removes {
					l.Remove(conns[left])
					continue
				}
				conns[word] = &fakeConn{name: word, host: hosts[word[0]]}
				order = append(order, word)
				l.Add(conns[word])
			}
			order = slices.DeleteFunc(order, func(name string) bool { return !conns[name].closed })
			if got := strings.Join(order, " "); got != tc.closed {
				t.Errorf("after %s, closed are %q, want %q", tc.events, got, tc.closed)
			}
			for _, c := range conns {
				l.Remove(c)
			}
			if len(l.entries) != 0 || len(l.counts) != 0 {
				t.Errorf("after all are removed, the list has %d connections and %d hosts", len(l.entries), len(l.counts))
			}
		})
	}
}
