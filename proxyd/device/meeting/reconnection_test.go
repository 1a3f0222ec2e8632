// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

// job holds the servers of a job, each in a single life.
type job []*Host

func newJob(t *testing.T, n int, life string) job {
	t.Helper()
	var all job
	for i := range n {
		h := newHost(t, fmt.Sprintf("%s%d:1", life, i))
		h.Assume(i, nil)
		all = append(all, h)
	}
	return all
}

// tellAddresses tells each server the addresses of all servers.
func (j job) tellAddresses(t *testing.T) {
	t.Helper()
	peers := map[int]string{}
	for i, h := range j {
		peers[i] = h.Address()
	}
	for _, h := range j {
		if err := h.Move(peers); err != nil {
			t.Fatal(err)
		}
	}
}

// callAgain calls Again on servers of the job, each with its Attendance.
func (j job) callAgain(ctx context.Context, key []byte, homes []int, as map[int]Attendance) map[int]outcome {
	type one struct {
		n int
		o outcome
	}
	all := make(chan one, len(as))
	for n, is := range as {
		go func() {
			r, err := j[n].Again(ctx, Reconnection{Key: key, Homes: homes, Is: is})
			all <- one{n, outcome{r, err}}
		}()
	}
	got := map[int]outcome{}
	for range as {
		o := <-all
		got[o.n] = o.o
	}
	return got
}

func TestAgain(t *testing.T) {
	key := bytes.Repeat([]byte{3}, 32)
	homes := []int{2, 0, 2, 1}
	j := newJob(t, 3, "new")
	j.tellAddresses(t)
	want := []collective.Member{
		{Ranks: []int{1}, Address: "new0:1", Server: 0}, {Ranks: []int{3}, Address: "new1:1", Server: 1}, {Ranks: []int{0, 2}, Address: "new2:1", Server: 2},
	}
	keys := map[string]bool{string(key): true}
	for range 3 {
		var key1 []byte
		for n, o := range j.callAgain(t.Context(), key, homes, map[int]Attendance{0: Present, 1: Present, 2: Present}) {
			if o.err != nil || !reflect.DeepEqual(o.roster.Members, want) {
				t.Fatalf("Again on server %d = members %v, %v", n, o.roster.Members, o.err)
			}
			if key1 == nil {
				key1 = o.roster.Key
			}
			if !bytes.Equal(key1, o.roster.Key) {
				t.Error("members of one meeting have different keys")
			}
		}
		if keys[string(key1)] {
			t.Error("a key was used before")
		}
		keys[string(key1)] = true
	}
	for n, o := range j.callAgain(t.Context(), key, homes, map[int]Attendance{0: Present, 1: Left, 2: Present}) {
		if o.err != nil || !o.roster.Members[1].Gone || o.roster.Members[0].Gone || o.roster.Members[2].Gone {
			t.Errorf("Again on server %d without server 1 = members %+v, %v", n, o.roster.Members, o.err)
		}
	}
	for n, o := range j.callAgain(t.Context(), key, homes, map[int]Attendance{0: Left, 1: Present, 2: Over}) {
		if !errors.Is(o.err, ErrOver) {
			t.Errorf("server %d: %v", n, o.err)
		}
	}
}

// TestAgainMissing: the error that each present server gets names the server that did not come. A second
// attempt can succeed.
func TestAgainMissing(t *testing.T) {
	key := bytes.Repeat([]byte{3}, 32)
	homes := []int{0, 1, 2, 3}
	j := newJob(t, 4, "new")
	if _, err := j[0].Again(t.Context(), Reconnection{Key: key, Homes: homes}); err == nil || !strings.Contains(err.Error(), "the address of server 1 is not known") {
		t.Error(err)
	}
	j.tellAddresses(t)
	for wait := time.Second; ; wait *= 2 { // server 2 has to come within that time
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		outcomes := j.callAgain(ctx, key, homes, map[int]Attendance{0: Present, 2: Present})
		cancel()
		if err := outcomes[0].err; wait < time.Minute && err != nil && strings.Contains(err.Error(), "server 1, 2, 3 has not come") {
			continue
		}
		for n, o := range outcomes {
			if o.err == nil || !strings.Contains(o.err.Error(), "server 1, 3 has not come") && n == 0 || n != 0 && !strings.Contains(o.err.Error(), "server 0 at") {
				t.Errorf("server %d: %v", n, o.err)
			}
		}
		break
	}
	for n, o := range j.callAgain(t.Context(), key, homes, map[int]Attendance{0: Present, 1: Present, 2: Present, 3: Present}) {
		if o.err != nil {
			t.Errorf("server %d: %v", n, o.err)
		}
	}
	for _, r := range []Reconnection{{Key: key, Homes: []int{0, 1}}, {Key: key[:9], Homes: homes}} {
		if _, err := j[3].Again(t.Context(), r); !errors.Is(err, ErrDisagree) {
			t.Errorf("Again(%+v), on which the servers disagree: %v", r, err)
		}
	}
	if _, err := NewLocal().Again(t.Context(), Reconnection{Key: key, Homes: homes}); err == nil {
		t.Error("a rendezvous that is alone has met")
	}
}

// TestAgainStale: a server of an earlier life knows the key and the address of a listening server, and is
// refused everywhere.
func TestAgainStale(t *testing.T) {
	key, homes := bytes.Repeat([]byte{3}, 32), []int{0, 1}
	old, j := newJob(t, 2, "old"), newJob(t, 2, "new")
	j.tellAddresses(t)
	// The stale server uses the present address of server 0 together with the earlier life of server 0.
	p := serverAddress{j[0].listener.Addr().String(), "new0:1", j[0].token, old[0].life}
	if err := old[1].Move(map[int]string{0: p.String()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stale := make(chan error, 1)
	go func() {
		_, err := old[1].Again(ctx, Reconnection{Key: key, Homes: homes})
		stale <- err
	}()
	for n, o := range j.callAgain(t.Context(), key, homes, map[int]Attendance{0: Present, 1: Present}) {
		if o.err != nil || o.roster.Members[1].Address != "new1:1" {
			t.Errorf("Again on server %d = members %v, %v", n, o.roster.Members, o.err)
		}
	}
	cancel()
	if err := <-stale; err == nil {
		t.Error("a server that was replaced was let in")
	}
	// A server that knows the present life is refused, too, if its address is not the address that Move told.
	if err := old[1].Move(map[int]string{0: j[0].Address()}); err != nil {
		t.Fatal(err)
	}
	both := job{j[0], old[1]}
	for n, o := range both.callAgain(t.Context(), key, homes, map[int]Attendance{0: Present, 1: Present}) {
		if (o.err == nil) != (n == 1) || n == 0 && !errors.Is(o.err, ErrDisagree) {
			t.Errorf("server %d: %v", n, o.err)
		}
	}
}

// TestAssume: ranks with an identity that was not used yet meet at the present address of its maker.
func TestAssume(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	ids := []ID{mustBeID(a.NewID()), mustBeID(a.NewID())}
	was := a.Identity()
	a.Close()
	moved := newHost(t, "next:1")
	moved.Assume(7, &was)
	if err := b.Move(map[int]string{7: moved.Address(), 8: b.Address()}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []map[int]Rendezvous{{0: b, 1: moved}, {0: b, 1: b}} {
		all := announceRanks(t, t.Context(), ids[0], 2, at)
		ids = ids[1:]
		for range at {
			o := nextOutcome(t, all)
			if o.err != nil {
				t.Fatalf("a rank whose maker has moved: %v", o.err)
			}
			if m := o.roster.Members; m[len(m)-1].Server != map[bool]int{true: 7, false: 0}[len(m) == 2] {
				t.Errorf("roster members = %+v, want the last at server 7 if there are two members, else at 0", m)
			}
		}
	}
	local := NewLocal()
	id := mustBeID(local.NewID())
	was = local.Identity()
	local = NewLocal()
	local.Assume(0, &was)
	if err := joinMeeting(t.Context(), local, id, 1, 0); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a:1", "a:1,b:2,c,d", "a:1,b:2," + strings.Repeat("0", 32) + "," + strings.Repeat("x", 32), "a,b:1," + strings.Repeat("0", 32) + "," + strings.Repeat("0", 32)} {
		if err := b.Move(map[int]string{3: bad}); err == nil || !strings.Contains(err.Error(), "server 3: ") {
			t.Errorf("Move to the bad address %q: %v", bad, err)
		}
	}
}

// TestHold: while a Host is held no roster is sent, even if all ranks are there. A rank that waits may leave
// and come again.
func TestHold(t *testing.T) {
	a, b := newHost(t, "a:1"), newHost(t, "b:1")
	id, other := mustBeID(a.NewID()), mustBeID(a.NewID())
	a.Hold()
	all := announceRanks(t, t.Context(), id, 2, map[int]Rendezvous{0: a, 1: b})
	waitFor(t, a, id, 2)
	select {
	case o := <-all:
		t.Fatalf("servers have met while they were held: %+v", o)
	default:
	}
	if !a.Waits(id) || a.Waits(other) || !b.Waits(id) {
		t.Error("servers do not wait for the meeting, or wait for another")
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := announceRanks(t, ctx, other, 1, map[int]Rendezvous{0: a})
	waitFor(t, a, other, 1)
	cancel()
	if o := nextOutcome(t, left); o.err == nil {
		t.Error("a server whose wait was cancelled has met")
	}
	a.Release()
	for range 2 {
		if o := nextOutcome(t, all); o.err != nil {
			t.Errorf("a server after Release: %v", o.err)
		}
	}
	if a.Waits(id) {
		t.Error("servers that have met are said to wait")
	}
}
