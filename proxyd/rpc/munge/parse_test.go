// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"errors"
	"net"
	"testing"
	"time"
)

func TestParseUnmunge(t *testing.T) {
	// As printed by munge 0.5.15, with and without --numeric.
	for _, out := range []string{
		"STATUS:          Success (0)\nUID:             alice (1001)\nGID:             alice (1002)\nTTL:             300\nLENGTH:          4\n\na\n\nb",
		"STATUS:          0\nUID:             1001\nGID:             1002\nTTL:             300\nLENGTH:          4\n\na\n\nb",
	} {
		c, err := parseUnmunge([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		if c.UID != 1001 || c.GID != 1002 || c.TTL != 5*time.Minute || string(c.Payload) != "a\n\nb" {
			t.Errorf("parsed credential = %+v; want uid 1001, gid 1002, 5 minutes and the whole payload", c)
		}
	}
	for name, tt := range map[string]struct{ out, want string }{
		"nothing":    {"", `munge does not work on this node: unmunge printed ""`},
		"no user":    {"STATUS: 0\nGID: 1\nTTL: 1\nLENGTH: 0\n\n", "munge does not work on this node: unmunge printed no UID"},
		"bad number": {"STATUS: 0\nUID: x\nGID: 1\nTTL: 1\nLENGTH: 0\n\n", `munge does not work on this node: unmunge printed "UID: x\n"`},
		"too short":  {"STATUS: 0\nUID: 1\nGID: 1\nTTL: 1\nLENGTH: 9\n\nx", "munge does not work on this node: unmunge printed status 0 and 1 bytes of 9"},
		"failed":     {"STATUS: Expired (15)\nUID: 1\nGID: 1\nTTL: 1\nLENGTH: 0\n\n", "munge does not work on this node: unmunge printed status 15 and 0 bytes of 0"},
	} {
		if _, err := parseUnmunge([]byte(tt.out)); err == nil || err.Error() != tt.want || !errors.Is(err, ErrNoMunge) {
			t.Errorf("%s: %v\nwant %s", name, err, tt.want)
		}
	}
}

// FuzzParseUnmunge: a user chooses the payload, and his name is printed.
func FuzzParseUnmunge(f *testing.F) {
	f.Add([]byte("STATUS: Success (0)\nUID: a (1)\nGID: b (2)\nTTL: 300\nLENGTH: 1\n\nx"))
	f.Fuzz(func(t *testing.T, out []byte) {
		c, err := parseUnmunge(out)
		if (c == nil) == (err == nil) {
			t.Errorf("parseUnmunge = %+v, %v; want a credential or an error", c, err)
		}
	})
}

func TestNonces(t *testing.T) {
	now := time.Unix(0, 0)
	s := newNonces(time.Minute, func() time.Time { return now })
	n := func(b byte) []byte { return append(make([]byte, nonceSize-1), b) }
	see := func(uid uint32, b byte, want bool) {
		t.Helper()
		if got := s.isFirst(uid, n(b)); got != want {
			t.Errorf("at %s: user %d, nonce %d: first = %v", now.Sub(time.Unix(0, 0)), uid, b, got)
		}
	}
	see(1, 'a', true)
	see(1, 'a', false)
	see(2, 'a', true) // another user's is another nonce
	now = now.Add(59 * time.Second)
	see(1, 'b', true)
	now = now.Add(2 * time.Second)
	see(1, 'c', true)
	see(1, 'b', false)
	now = now.Add(57 * time.Second) // 59 s after b
	see(1, 'b', false)
	now = now.Add(5 * time.Minute)
	see(1, 'a', true) // forgotten, long after its credential has expired
	if len(s.old) != 0 || len(s.recent) != 1 {
		t.Errorf("%d and %d are remembered, want 0 and 1", len(s.old), len(s.recent))
	}
}

// TestUnreachable: where a daemon cannot be reached, a call is not sent again because the connection before was closed.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gone := &link{pace: &pace{}}
	gone.newestClosed.Store(true)
	if _, err := gone.dialPaced(t.Context(), l.Addr().String()); err == nil || gone.wasClosed(0) {
		t.Errorf("dial: %v, and the newest connection was closed: %v; want an error, and not closed", err, gone.wasClosed(0))
	}
}
