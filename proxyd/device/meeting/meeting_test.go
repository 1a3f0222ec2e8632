// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

// patience bounds how long a test waits for something that must happen. No test depends on its length.
const patience = 2 * time.Minute

func newHost(t *testing.T, node string) *Host {
	t.Helper()
	h, err := Listen(t.Context(), Config{Listen: "127.0.0.1:0", Node: node, Dial: patience, Handshake: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

type outcome struct {
	roster collective.Roster
	err    error
}

// announceRanks announces ranks of a communicator, each at a Rendezvous.
func announceRanks(t *testing.T, ctx context.Context, id ID, size int, at map[int]Rendezvous) chan outcome {
	t.Helper()
	all := make(chan outcome, len(at))
	for rank, r := range at {
		go func() {
			got, err := r.Meet(ctx, id, size, rank)
			all <- outcome{got, err}
		}()
	}
	return all
}

func nextOutcome(t *testing.T, all chan outcome) outcome {
	t.Helper()
	select {
	case o := <-all:
		return o
	case <-time.After(patience):
		t.Fatal("no outcome came for a long time")
		panic("not reached")
	}
}

func TestMeet(t *testing.T) {
	local := NewLocal()
	a, b, c := newHost(t, "a:1"), newHost(t, "b:1"), newHost(t, "c:1")
	for _, tc := range []struct {
		name  string
		maker Rendezvous
		at    []Rendezvous // by rank
		want  []collective.Member
	}{
		{"one", local, []Rendezvous{local}, []collective.Member{{Ranks: []int{0}}}},
		{"one process", local, []Rendezvous{local, local, local}, []collective.Member{{Ranks: []int{0, 1, 2}}}},
		{"one host", a, []Rendezvous{a, a}, []collective.Member{{Ranks: []int{0, 1}, Address: "a:1"}}},
		{"two hosts", a, []Rendezvous{a, b}, []collective.Member{{Ranks: []int{0}, Address: "a:1"}, {Ranks: []int{1}, Address: "b:1"}}},
		{"the maker is not a member", c, []Rendezvous{a, b}, []collective.Member{{Ranks: []int{0}, Address: "a:1"}, {Ranks: []int{1}, Address: "b:1"}}},
		{"round robin", b, []Rendezvous{a, b, c, a, b, c}, []collective.Member{
			{Ranks: []int{0, 3}, Address: "a:1"}, {Ranks: []int{1, 4}, Address: "b:1"}, {Ranks: []int{2, 5}, Address: "c:1"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id, err := tc.maker.NewID()
			if err != nil {
				t.Fatal(err)
			}
			at := map[int]Rendezvous{}
			for rank, r := range tc.at {
				at[rank] = r
			}
			all := announceRanks(t, t.Context(), id, len(at), at)
			var key []byte
			for range at {
				o := nextOutcome(t, all)
				if o.err != nil {
					t.Fatalf("a rank of the communicator: %v", o.err)
				}
				if !reflect.DeepEqual(o.roster.Members, tc.want) {
					t.Errorf("members of the roster = %v, want %v", o.roster.Members, tc.want)
				}
				if key == nil {
					key = o.roster.Key
				}
				if len(key) < 16 || !bytes.Equal(key, o.roster.Key) {
					t.Errorf("ranks have different keys: %x and %x", key, o.roster.Key)
				}
				if bytes.Contains(id[:], key) {
					t.Error("the key is in the identity")
				}
			}
		})
	}
}

func TestMeetFails(t *testing.T) {
	local := NewLocal()
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	other, err := NewLocal().NewID()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		at   Rendezvous
		id   ID
		size int
		rank int
		want error
	}{
		{"zeros", local, ID{}, 1, 0, ErrID},
		{"zeros at a host", a, ID{}, 1, 0, ErrID},
		{"another server's", local, other, 1, 0, ErrID},
		{"that of a server without an address", a, other, 1, 0, ErrID},
		{"no ranks", a, mustBeID(a.NewID()), 0, 0, ErrDisagree},
		{"rank beyond", a, mustBeID(a.NewID()), 2, 2, ErrDisagree},
		{"negative", a, mustBeID(a.NewID()), 2, -1, ErrDisagree},
		{"too many", a, mustBeID(a.NewID()), maxRanks + 1, 0, ErrDisagree},
		{"rank beyond, elsewhere", b, mustBeID(a.NewID()), 2, 2, ErrFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.at.Meet(t.Context(), tc.id, tc.size, tc.rank); !errors.Is(err, tc.want) {
				t.Errorf("the announcement's error = %v, want %v", err, tc.want)
			}
		})
	}
}

func mustBeID(id ID, err error) ID {
	if err != nil {
		panic(err)
	}
	return id
}

// TestOneSpoilsAll: if a rank leaves, disagrees or comes twice, no rank waits for ever.
func TestOneSpoilsAll(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	for _, tc := range []struct {
		name  string
		at    Rendezvous // where the rank that causes the failure is
		spoil func(t *testing.T, maker *Host, at Rendezvous, id ID) error
	}{
		{"leaves at the maker", a, leaveMeeting},
		{"leaves elsewhere", b, leaveMeeting},
		{"another size", b, func(t *testing.T, _ *Host, at Rendezvous, id ID) error { return joinMeeting(t.Context(), at, id, 5, 2) }},
		{"a rank again", b, func(t *testing.T, _ *Host, at Rendezvous, id ID) error { return joinMeeting(t.Context(), at, id, 4, 0) }},
		{"another size at the maker", a, func(t *testing.T, _ *Host, at Rendezvous, id ID) error { return joinMeeting(t.Context(), at, id, 2, 1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := mustBeID(a.NewID())
			all := announceRanks(t, t.Context(), id, 4, map[int]Rendezvous{0: a, 1: b})
			waitFor(t, a, id, 2)
			if err := tc.spoil(t, a, tc.at, id); err == nil {
				t.Error("the rank that spoils the gathering got a roster, want an error")
			}
			for range 2 {
				if o := nextOutcome(t, all); o.err == nil {
					t.Errorf("a rank got the roster %v, want an error", o.roster)
				}
			}
		})
	}
}

func joinMeeting(ctx context.Context, at Rendezvous, id ID, size, rank int) error {
	_, err := at.Meet(ctx, id, size, rank)
	return err
}

func leaveMeeting(t *testing.T, maker *Host, at Rendezvous, id ID) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- joinMeeting(ctx, at, id, 4, 2) }()
	waitFor(t, maker, id, 3)
	cancel()
	return <-done
}

// waitFor returns when n ranks have come.
func waitFor(t *testing.T, h *Host, id ID, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		h.gatherings.mu.Lock()
		g := h.gatherings.open[string(id.nonceBytes())]
		there := 0
		if g != nil {
			there = len(g.there) - g.missing
		}
		h.gatherings.mu.Unlock()
		if there == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d ranks came, not %d", there, n)
		}
	}
}

// TestLate: a rank that comes after the end of a gathering, good or bad, gets an error that says so.
func TestLate(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	good, bad := mustBeID(a.NewID()), mustBeID(a.NewID())
	if err := joinMeeting(t.Context(), a, good, 1, 0); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := joinMeeting(gone, a, bad, 2, 0); err == nil {
		t.Fatal("a rank with another id has met")
	}
	for _, tc := range []struct {
		name string
		id   ID
		want error
	}{{"used", good, ErrDisagree}, {"failed", bad, ErrLeft}} {
		if err := joinMeeting(t.Context(), a, tc.id, 2, 1); !errors.Is(err, tc.want) {
			t.Errorf("a rank after the end of the gathering %q: %v", tc.name, err)
		}
		if err := joinMeeting(t.Context(), b, tc.id, 2, 1); !errors.Is(err, ErrFailed) {
			t.Errorf("a rank at another host after the end of the gathering %q: %v", tc.name, err)
		}
	}
	for range 2 * remembered {
		joinMeeting(gone, a, mustBeID(a.NewID()), 2, 0) //nolint:errcheck // it fails
	}
	if n := len(a.gatherings.past); n != remembered || len(a.gatherings.old) != n {
		t.Errorf("the host remembers %d endings", n)
	}
}

func TestHostClosed(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	id := mustBeID(a.NewID())
	all := announceRanks(t, t.Context(), id, 3, map[int]Rendezvous{0: a, 1: b})
	waitFor(t, a, id, 2)
	a.Close()
	for range 2 {
		if o := nextOutcome(t, all); o.err == nil {
			t.Errorf("a rank got the roster %v, want an error", o.roster)
		}
	}
}

// TestStranger: a peer that does not know the secret gets at most the host's answer, and spoils no
// meeting.
func TestStranger(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	id := mustBeID(a.NewID())
	wrong := id
	wrong[secretAt] ^= 1
	if err := joinMeeting(t.Context(), b, wrong, 2, 1); !errors.Is(err, ErrProtocol) {
		t.Errorf("a wrong secret: %v", err)
	}
	for _, said := range []string{"", "GET / HTTP/1.1\r\n\r\n", helloMagic + string(bytes.Repeat([]byte{7}, 48)) + string(make([]byte, 100))} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, said)       //nolint:errcheck // the host may have closed it already
		conn.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // likewise
		got, _ := io.ReadAll(conn)       // returns when the host closes the connection
		if n := len(got); n > answerSize {
			t.Errorf("after %q the host sent %d bytes, want at most an answer", said, n)
		}
		conn.Close()
	}
	all := announceRanks(t, t.Context(), id, 2, map[int]Rendezvous{0: a, 1: b})
	for range 2 {
		if o := nextOutcome(t, all); o.err != nil {
			t.Errorf("a rank after the stranger: %v", o.err)
		}
	}
}

func TestDeadline(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	late := errors.New("too late")
	for name, at := range map[string]Rendezvous{"here": a, "there": b} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
		if err := joinMeeting(ctx, at, mustBeID(a.NewID()), 2, 0); !errors.Is(err, late) {
			t.Errorf("a meeting past its deadline, rank %s: %v", name, err)
		}
		cancel()
	}
}

func FuzzEnd(f *testing.F) {
	g := &gathering{addresses: []string{"a:1", "", "b:22"}}
	var good bytes.Buffer
	good.WriteByte(1)
	good.Write(g.nonce[:])
	for _, a := range g.addresses {
		good.Write(appendAddress([]byte{7, 0, 0, 0}, a))
	}
	f.Add(good.Bytes(), 3)
	f.Add([]byte{0, 'x'}, 1)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = min(max(size, 1), 1000)
		e, err := parseEnd(b, size)
		if err != nil {
			return
		}
		again := append([]byte{1}, e.nonce...)
		for i, a := range e.addresses {
			again = appendAddress(binary.LittleEndian.AppendUint32(again, uint32(e.servers[i])), a)
		}
		if len(e.addresses) != size || !bytes.Equal(again, b) {
			t.Errorf("the reply %q is parsed as %q", b, e.addresses)
		}
	})
}

// FuzzGreet sends bytes that a peer could send, also a peer that knows the secret.
func FuzzGreet(f *testing.F) {
	var k key
	f.Add([]byte(helloMagic), []byte{})
	f.Add(bytes.Repeat([]byte{1}, helloSize), make([]byte, 46))
	f.Fuzz(func(t *testing.T, hello, rest []byte) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go io.Copy(io.Discard, theirs) //nolint:errcheck // it ends when it ends
		go func() {
			defer theirs.Close()
			theirs.Write(hello) //nolint:errcheck // likewise
			theirs.Write(rest)  //nolint:errcheck // likewise
		}()
		if _, _, h, err := greetRank(ours, k.deriveSecret); err == nil {
			t.Errorf("a rank with a bad greeting was let in as %v", h)
		}
	})
}

func TestID(t *testing.T) {
	var k key
	if _, err := newID([16]byte{}, &k, fmt.Sprintf("%0*d", maxAddress+1, 0)); !errors.Is(err, ErrID) {
		t.Errorf("a long address: %v", err)
	}
	id, err := newID([16]byte{1}, &k, "[fe80::1%eth0]:65535")
	if err != nil || id.checkID() != nil || id.makerAddress() != "[fe80::1%eth0]:65535" || !bytes.Equal(id.secretBytes(), k.deriveSecret(id.nonceBytes())) {
		t.Errorf("newID with an IPv6 address = %x, %v", id, err)
	}
	other, err := newID([16]byte{1}, &k, "x")
	if err != nil || bytes.Equal(other.secretBytes(), id.secretBytes()) || other.Name() == id.Name() {
		t.Error("two identities have the same secret or name")
	}
	id[addressAt] = 200
	if id.checkID() == nil {
		t.Error("an identity with an address beyond its end is accepted")
	}
}
