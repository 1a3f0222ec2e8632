// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lifetime is how many bytes a process may still write; then all its connections close, as if the process had
// been killed in the middle of a write.
type lifetime struct {
	mu    sync.Mutex
	left  int
	conns []net.Conn
}

type mortal struct {
	net.Conn
	life *lifetime
}

func (l *lifetime) wrapConn(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return mortal{c, l}
}

func (m mortal) Write(b []byte) (int, error) {
	m.life.mu.Lock()
	n := min(len(b), m.life.left)
	m.life.left -= n
	dead := n < len(b)
	conns := m.life.conns
	m.life.mu.Unlock()
	written, err := m.Conn.Write(b[:n])
	if dead && err == nil {
		for _, c := range conns {
			c.Close()
		}
		err = os.ErrClosed
	}
	return written, err
}

// makeProgram returns the operations of a rank, up to its failure: all algorithms and messages.
func makeProgram(rank, ranks, size int) []Op {
	var ops []Op
	add := func(o Op) {
		o.Type, o.Count = Uint8, size
		if o.Kind.isReduction() {
			o.Reduction = Max
		}
		send, recv := o.Needs(rank, ranks)
		o.Send, o.Recv = make([]byte, send), make([]byte, recv)
		ops = append(ops, o)
	}
	for kind := range Send {
		add(Op{Kind: kind, Root: 1})
	}
	add(Op{Kind: Send, Peer: (rank + 1) % ranks})
	add(Op{Kind: Recv, Peer: (rank + ranks - 1) % ranks})
	return ops
}

// TestDeath: wherever a process dies, each operation of a survivor returns, each communicator fails, and no goroutine
// writes to a buffer that was given back (the race detector would see it).
func TestDeath(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	home := []int{0, 1, 2, 1}
	for round := range 40 {
		size := []int{10, 3000, 100_000}[round%3]
		life := &lifetime{left: rng.IntN(12 * size * (1 + round%2))}
		w := newNodes(t, home, func(u *tuning) { u.slice = 4096 }, Config{})
		dying := round % 3
		w.nodes[dying].wrap = life.wrapConn
		w.comms = w.createComms("world")
		var all sync.WaitGroup
		failed := make(chan error, len(home))
		for rank, p := range home {
			all.Go(func() {
				for {
					ops := makeProgram(rank, len(home), size)
					// Messages in a single group, collectives each alone.
					groups := append([][]Op{ops[len(ops)-2:]}, chopGroups(ops[:len(ops)-2])...)
					done := make(chan error, len(groups))
					for _, g := range groups {
						err := w.comms[p].Issue(rank, g, func(err error) {
							for _, o := range g {
								clear(o.Recv)
							}
							done <- err
						})
						if err != nil {
							done <- err
						}
					}
					var first error
					for range groups {
						if err := <-done; err != nil && first == nil {
							first = err
						}
					}
					if first != nil {
						failed <- first
						return
					}
				}
			})
		}
		for range home {
			if err := waitForValue(t, failed); err == nil {
				t.Fatal("an operation of a rank that needs the dead process returned no error")
			}
		}
		all.Wait()
		for p, c := range w.comms {
			waitForValue(t, c.Done())
			if c.Err() == nil {
				t.Errorf("round %d: the communicator of process %d has no error", round, p)
			}
		}
		for _, n := range w.nodes {
			n.Close()
		}
	}
}

func chopGroups(ops []Op) [][]Op {
	var all [][]Op
	for _, o := range ops {
		all = append(all, []Op{o})
	}
	return all
}

// TestNodeClosed: a node that is closed fails its peers' communicators, whether they are idle or wait.
func TestNodeClosed(t *testing.T) {
	w := newWorld(t, []int{0, 1, 2}, nil)
	done := make(chan error, 1)
	op := Op{Kind: AllReduce, Count: 1, Send: make([]byte, 1), Recv: make([]byte, 1)}
	if err := w.comms[0].Issue(0, []Op{op}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	w.nodes[1].Close()
	if err := waitForValue(t, done); err == nil {
		t.Error("an operation succeeded without its peer")
	}
	for _, p := range []int{0, 2} {
		waitForValue(t, w.comms[p].Failed())
	}
	if err := w.comms[1].Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("Err of the closed node's communicator = %v, want ErrClosed", err)
	}
	if err := w.comms[0].Issue(0, []Op{op}, nil); err == nil {
		t.Error("an operation was issued on a dead communicator")
	}
	if _, err := w.nodes[1].Start(t.Context(), w.spec("again", 1), w.room); !errors.Is(err, ErrClosed) {
		t.Errorf("Start on a closed node: %v", err)
	}
}

func TestAbort(t *testing.T) {
	w := newWorld(t, []int{0, 1, 0}, nil)
	done := make(chan error, 1)
	op := Op{Kind: Recv, Count: 1, Peer: 2, Recv: make([]byte, 1)}
	if err := w.comms[0].Issue(0, []Op{op}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	w.comms[0].Abort()
	w.comms[0].Abort()
	if err := waitForValue(t, done); !errors.Is(err, ErrAborted) {
		t.Errorf("the operation returned %v", err)
	}
	waitForValue(t, w.comms[1].Done())
	if w.comms[1].Err() == nil {
		t.Error("the peer's communicator has no error after Abort")
	}
}

// TestMakeAgain: a communicator is aborted in every state of its making, and made again under the same name: by the
// same nodes, and by other nodes, as in a restore.
func TestMakeAgain(t *testing.T) {
	w := newNodes(t, []int{0, 1, 2}, nil, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	half, err := w.nodes[0].Start(ctx, w.spec("world", 0), w.room) // the other members do not come
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	waitForValue(t, half.Done())
	if err := half.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err of a creation that was cancelled = %v", err)
	}
	for range 3 {
		w.comms = w.createComms("world")
		tr := newTrial(Op{Kind: AllReduce, Type: Float32, Count: 5}, 3, form{}, rand.New(rand.NewPCG(1, 1)))
		w.mustIssue(tr.ops)
		tr.checkReceived(t, "again")
		for _, c := range w.comms {
			if !c.Quiet() {
				t.Error("the communicator is not quiet")
			}
			c.Abort()
		}
		for _, c := range w.comms {
			waitForValue(t, c.Done())
		}
	}
	elsewhere := newNodes(t, []int{0, 0, 1}, nil, Config{})
	elsewhere.comms = elsewhere.createComms("world")
	tr := newTrial(Op{Kind: AllReduce, Type: Float32, Count: 5}, 3, form{}, rand.New(rand.NewPCG(1, 1)))
	elsewhere.mustIssue(tr.ops)
	tr.checkReceived(t, "elsewhere")
}

// TestPeerNeverConnects: a peer arrives at the rendezvous and never connects.
func TestPeerNeverConnects(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for me, ranks := range [][]int{{0}, {1}} { // the process that listens, the process that dials
		w := newNodes(t, []int{0}, nil, Config{Connect: 50 * time.Millisecond, Handshake: 20 * time.Millisecond})
		go w.room.Meet(t.Context(), "x", 2, Member{Ranks: []int{1 - me}, Address: silent.Addr().String()})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = w.nodes[0].Create(ctx, Spec{ID: "x", Size: 2, Ranks: ranks}, w.room)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Create as rank %d: %v, want DeadlineExceeded", me, err)
		}
	}
}

// TestDestroy: a communicator ends when all ranks have destroyed it; earlier operations complete, later ones fail.
func TestDestroy(t *testing.T) {
	w := newWorld(t, []int{0, 1, 0}, nil)
	done := make(chan error, 3)
	for rank, p := range w.home {
		op := Op{Kind: AllReduce, Count: 1 << 20, Send: bytes.Repeat([]byte{1}, 1<<20), Recv: make([]byte, 1<<20)}
		if err := w.comms[p].Issue(rank, []Op{op}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := w.comms[p].Destroy(rank); err != nil {
			t.Fatal(err)
		}
		if err := w.comms[p].Issue(rank, []Op{op}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("rank %d issues after Destroy: %v", rank, err)
		}
	}
	for range 3 {
		if err := waitForValue(t, done); err != nil {
			t.Error(err)
		}
	}
	for _, c := range w.comms {
		waitForValue(t, c.Done())
		if err := c.Err(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Destroy: %v", err)
		}
	}
	if err := w.comms[0].Destroy(1); !errors.Is(err, ErrArgument) {
		t.Errorf("Destroy of a rank of another node: %v", err)
	}
}

// TestLeftAlone: a process leaves while another still needs its data.
func TestLeftAlone(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t, []int{0, 1, 2}, nil)
		done := make(chan error, 2)
		issue := func() {
			for p, op := range []Op{{Kind: Recv, Peer: 1}, {}, {Kind: Send, Peer: 1}} {
				op.Count, op.Send, op.Recv = 1, make([]byte, 1), make([]byte, 1)
				if p == 1 {
					continue
				}
				if err := w.comms[p].Issue(p, []Op{op}, func(err error) { done <- err }); err != nil {
					done <- err
				}
			}
		}
		if !late {
			issue()
		}
		w.comms[1].Destroy(1)
		if late {
			for _, p := range []int{0, 2} { // until they have heard of the end
				for !w.comms[p].links[1].peerIsGone() {
					time.Sleep(time.Millisecond)
				}
			}
			issue()
		}
		left := false
		for range 2 {
			err := waitForValue(t, done)
			if err == nil {
				t.Error("an operation with a process that had left succeeded")
			}
			left = left || errors.Is(err, ErrLeft)
		}
		if !left {
			t.Errorf("late %v: the error has no reason", late)
		}
	}
}

func TestBadRosters(t *testing.T) {
	key := newKey()
	ok := []Member{{Ranks: []int{0}}}
	for _, c := range []struct {
		name   string
		size   int
		roster Roster
	}{
		{"short key", 1, Roster{key[:15], ok}},
		{"nobody", 1, Roster{key, nil}},
		{"a rank too many", 1, Roster{key, []Member{{Ranks: []int{0, 1}}}}},
		{"a rank too few", 2, Roster{key, ok}},
		{"a negative rank", 1, Roster{key, []Member{{Ranks: []int{-1, 0}}}}},
		{"a rank twice", 2, Roster{key, []Member{{Ranks: []int{0, 1}}, {Ranks: []int{1}}}}},
		{"a member without ranks", 1, Roster{key, []Member{{Ranks: []int{0}}, {}}}},
		{"nobody listens", 2, Roster{key, []Member{{Ranks: []int{0}}, {Ranks: []int{1}}}}},
		{"our ranks are others", 2, Roster{key, []Member{{Ranks: []int{0, 1}}}}},
	} {
		n, err := Listen(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Create(t.Context(), Spec{ID: "x", Size: c.size, Ranks: []int{0}}, rosterOf(c.roster))
		if !errors.Is(err, ErrRoster) {
			t.Errorf("Create with the bad roster %q: %v", c.name, err)
		}
		n.Close()
	}
	n, _ := Listen(t.Context(), Config{})
	defer n.Close()
	for _, s := range []Spec{{Size: 0}, {Size: maxRanks + 1, Ranks: []int{0}}, {Size: 1}, {Size: 1, Ranks: []int{1}}, {Size: 2, Ranks: []int{0, 0}}} {
		if _, err := n.Start(t.Context(), s, nil); !errors.Is(err, ErrArgument) {
			t.Errorf("Start with the bad Spec %+v: %v", s, err)
		}
	}
}

// TestTwoPartsOnOneNode: two parts of a single communicator on a single node would get each other's connections.
func TestTwoPartsOnOneNode(t *testing.T) {
	w := newNodes(t, []int{0}, nil, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var comms []*Comm
	for r := range 2 {
		c, err := w.nodes[0].Start(ctx, Spec{ID: "x", Size: 2, Ranks: []int{r}}, w.room)
		if err != nil {
			t.Fatal(err)
		}
		comms = append(comms, c)
	}
	select {
	case <-comms[0].Done():
	case <-comms[1].Done():
	case <-time.After(patience):
	}
	a, b := comms[0].Err(), comms[1].Err()
	// io.EOF: the part has connected to itself, and has ended before the other part was there.
	refused := func(err error) bool { return errors.Is(err, ErrArgument) || errors.Is(err, io.EOF) }
	if !refused(a) && !refused(b) {
		t.Errorf("neither part was refused: %v, %v", a, b)
	}
}

// TestContext: the end of a node's context ends its communicators.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n, err := Listen(ctx, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := n.Create(ctx, Spec{ID: "x", Size: 1, Ranks: []int{0}}, &Room{})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := n.Start(context.Background(), Spec{ID: "y", Size: 2, Ranks: []int{0}}, &Room{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, c := range []*Comm{c, waiting} {
		waitForValue(t, c.Done())
		if !errors.Is(c.Err(), ErrClosed) {
			t.Errorf("after the node's context has ended, Err = %v, want ErrClosed", c.Err())
		}
	}
	n.Close()
}

// TestKernelWatches: the kernel notices a machine that falls silent, if it was told to watch the connection.
func TestKernelWatches(t *testing.T) {
	w := newNodes(t, []int{0, 1}, nil, Config{Dead: 7 * time.Second})
	for _, c := range w.createComms("world") {
		for _, l := range c.links {
			if l == nil {
				continue
			}
			raw, err := l.conn.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) {
				timeout, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
				alive, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
				if timeout != 7000 || alive == 0 {
					t.Errorf("user timeout %d ms, keep-alive %d", timeout, alive)
				}
			})
		}
	}
}

type rosterOf Roster

func (r rosterOf) Meet(context.Context, string, int, Member) (Roster, error) { return Roster(r), nil }

// TestRoom: members that give up make room for members that come instead.
func TestRoom(t *testing.T) {
	var room Room
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := room.Meet(cancelled, "x", 2, Member{Ranks: []int{0}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Meet of a member that is alone: %v", err)
	}
	got := make(chan string, 2)
	for r := range 2 {
		go func() {
			roster, err := room.Meet(t.Context(), "x", 2, Member{Ranks: []int{r}})
			got <- fmt.Sprint(len(roster.Members), err)
		}()
	}
	for range 2 {
		if s := waitForValue(t, got); s != "2 <nil>" {
			t.Errorf("Meet of both members = %s, want 2 members and no error", s)
		}
	}
	if len(room.waits) != 0 {
		t.Error("the room is not empty")
	}
}
