// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"io"
	"net"
	"testing"
)

// TestSilentConnections: connections that say nothing, as many as a host has at most and more, keep no rank out.
func TestSilentConnections(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	for range maxHandshakes + 1 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	all := announceRanks(t, t.Context(), mustBeID(a.NewID()), 2, map[int]Rendezvous{0: a, 1: b})
	for range 2 {
		if o := nextOutcome(t, all); o.err != nil {
			t.Fatalf("a rank beside silent connections: %v", o.err)
		}
	}
}

// TestClosedBeforeReply: a rank calls again if its connection is closed before the host has heard of the rank.
func TestClosedBeforeReply(t *testing.T) {
	for name, heard := range map[string]int64{"before the answer": 0, "before the announcement": answerSize} {
		t.Run(name, func(t *testing.T) {
			a, b := newHost(t, "a:1"), newHost(t, "b:1")
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go closeSomeConns(t, l, a.listener.Addr().String(), heard)
			id := mustBeID(newID(a.token, &a.key, l.Addr().String()))
			all := announceRanks(t, t.Context(), id, 2, map[int]Rendezvous{0: a, 1: b})
			for range 2 {
				if o := nextOutcome(t, all); o.err != nil {
					t.Fatalf("a rank: %v", o.err)
				}
			}
		})
	}
}

// closeSomeConns passes connections on to a host. It closes the first connection after so many bytes of the host, and
// passes none of the rank's announcement on.
func closeSomeConns(t *testing.T, l net.Listener, host string, heard int64) {
	for first := true; ; first = false {
		rank, err := l.Accept()
		if err != nil {
			return
		}
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
		if err != nil {
			rank.Close()
			return
		}
		if first {
			io.CopyN(conn, rank, int64(helloSize)) //nolint:errcheck // the rank notices
			io.CopyN(rank, conn, heard)            //nolint:errcheck // likewise
			rank.Close()
			conn.Close()
			continue
		}
		go io.Copy(conn, rank) //nolint:errcheck // likewise
		go func() {
			io.Copy(rank, conn) //nolint:errcheck // likewise
			rank.Close()
			conn.Close()
		}()
	}
}
