// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package strangers bounds the connections of a listener that have not been identified yet. Any user of any host can open
// such connections and keep them open. A new connection is always taken: where there are too many, an old connection
// makes way, and the connections of a single host cannot keep out the connections of other hosts.
package strangers

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// List holds the connections of strangers. A List is safe for concurrent use.
type List struct {
	most int

	mu      sync.Mutex
	entries []entry        // oldest first
	counts  map[string]int // by host
}

type entry struct {
	conn net.Conn
	host string
}

// New makes a List that holds at most so many connections.
func New(most int) *List { return &List{most: most, counts: map[string]int{}} }

// Add adds a connection. If there are too many now, Add closes the oldest connection of the host that has the most;
// the caller that serves that connection sees its end, and calls Remove as always.
func (l *List) Add(conn net.Conn) {
	host := hostAddress(conn.RemoteAddr())
	l.mu.Lock()
	l.entries = append(l.entries, entry{conn, host})
	l.counts[host]++
	var leaves net.Conn
	if len(l.entries) > l.most {
		leaves = l.takeOldest()
	}
	l.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
}

// Replace makes room for a connection where the caller has a bound of its own. If the host that has the most connections
// still had no fewer than the connection's host, that connection included, Replace closes the oldest connection of the
// former, and returns true.
func (l *List) Replace(conn net.Conn) bool {
	host := hostAddress(conn.RemoteAddr())
	l.mu.Lock()
	var leaves net.Conn
	if len(l.entries) > 0 && l.largestCount() > l.counts[host]+1 {
		leaves = l.takeOldest()
	}
	l.mu.Unlock()
	if leaves != nil {
		leaves.Close()
	}
	return leaves != nil
}

// Remove removes a connection: the connection is identified now, or has ended. Remove may be called twice.
func (l *List) Remove(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.entries, func(e entry) bool { return e.conn == conn }); i >= 0 {
		l.deleteEntry(i)
	}
}

// takeOldest removes the connection that makes way, and returns it: the oldest of the host with the most connections.
// The caller holds mu.
func (l *List) takeOldest() net.Conn {
	largest := l.largestCount()
	i := slices.IndexFunc(l.entries, func(e entry) bool { return l.counts[e.host] == largest })
	conn := l.entries[i].conn
	l.deleteEntry(i)
	return conn
}

// largestCount returns how many connections the host has that has the most. The caller holds mu.
func (l *List) largestCount() (largest int) {
	for _, n := range l.counts {
		largest = max(largest, n)
	}
	return largest
}

// deleteEntry deletes an entry. The caller holds mu.
func (l *List) deleteEntry(i int) {
	host := l.entries[i].host
	l.entries = slices.Delete(l.entries, i, i+1)
	if l.counts[host]--; l.counts[host] == 0 {
		delete(l.counts, host)
	}
}

// hostAddress returns the name under which the connections of a host are counted. A host has a whole /64 of IPv6
// addresses.
func hostAddress(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	net64, _ := ip.WithZone("").Prefix(64) // fails for IPv4 addresses only
	return net64.String()
}
