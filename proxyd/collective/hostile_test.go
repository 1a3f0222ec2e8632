// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// villain knows the key of a communicator of two ranks, and is rank 1.
type villain struct {
	*world
	comm *Comm // its victim's
	conn net.Conn
}

// newVillain makes a node with a healthy communicator, which must stay so, and another communicator with the villain.
func newVillain(t *testing.T) *villain {
	t.Helper()
	v := &villain{world: newNodes(t, []int{0, 1}, nil, Config{})}
	v.comms = v.createComms("healthy")
	rosters := make(chan Roster, 1)
	go func() {
		r, _ := v.room.Meet(t.Context(), "other", 2, Member{Ranks: []int{1}})
		rosters <- r
	}()
	c, err := v.nodes[0].Start(t.Context(), v.spec("other", 0), v.room)
	if err != nil {
		t.Fatal(err)
	}
	r := waitForValue(t, rosters)
	v.comm = c
	v.conn = v.dialNode(r.Key, makeTag(r.Key, "other"), 1)
	v.ready(c)
	return v
}

func (w *world) dialNode(key []byte, tg tag, from int) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.nodes[0].Address())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := introduceSelf(conn, key, newHello(tg, from, 0)); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// checkHealthy checks that world still works.
func (w *world) checkHealthy() {
	w.t.Helper()
	ops := make([]Op, len(w.home))
	for r := range ops {
		ops[r] = Op{Kind: AllReduce, Count: 1, Send: []byte{1}, Recv: make([]byte, 1)}
	}
	w.mustIssue(ops)
	if int(ops[0].Recv[0]) != len(w.home) {
		w.t.Errorf("an all-reduce of the healthy communicator gave %d", ops[0].Recv[0])
	}
}

func joinFrames(hs ...header) (b []byte) {
	for _, h := range hs {
		b = h.appendTo(b)
	}
	return b
}

func repeatFrames(n int, f func(i int) header, payload ...byte) (b []byte) {
	for i := range n {
		b = append(f(i).appendTo(b), payload...)
	}
	return b
}

// TestHostilePeer: after each message of a hostile peer that knows the key, only the peer's own
// communicator fails, with a reason, in bounded time and memory, and the operation under way returns.
func TestHostilePeer(t *testing.T) {
	coll := func(seq uint64) key { return key{seq: seq, src: noRank, dst: noRank} }
	message := key{seq: 0, src: 1, dst: 0} // rank 0 waits for 100 bytes of the villain
	for _, c := range []struct {
		name  string
		bytes []byte
		want  error
		says  string
	}{
		{"noise", []byte(strings.Repeat("x", headerSize)), ErrProtocol, "frame of kind 120"},
		{"kind 0", make([]byte, headerSize), ErrProtocol, "frame of kind 0"},
		{"reserved bytes", append([]byte{byte(frameReady), 1}, make([]byte, headerSize-2)...), ErrProtocol, "reserved"},
		{"data nobody asked for", joinFrames(header{frameData, 0, coll(0), 8}), ErrProtocol, "nobody has room"},
		{"too much data", joinFrames(header{frameData, 0, message, 101}), ErrProtocol, "nobody has room"},
		{"data of another operation", joinFrames(header{frameData, 5, message, 100}), ErrProtocol, "nobody has room"},
		{"a frame beyond the limit", joinFrames(header{frameData, 0, message, maxFrame + 1}), ErrProtocol, "says 262145 bytes"},
		{"a length of 2^64-1", joinFrames(header{frameData, 0, message, 1<<64 - 1}), ErrProtocol, "says 18446744073709551615"},
		{"an eager message that is large", joinFrames(header{frameEager, 0, coll(0), maxEager + 1}), ErrProtocol, "says 16385"},
		{"an eager message between ranks", append(joinFrames(header{frameEager, 0, message, 1}), 0), ErrProtocol, "too early"},
		{"too many eager messages", repeatFrames(window+1, func(i int) header { return header{frameEager, 0, coll(uint64(i)), 1} }, 0), ErrProtocol, "too early"},
		{"an eager message twice", repeatFrames(2, func(int) header { return header{frameEager, 0, coll(3), 1} }, 0), ErrProtocol, "too early"},
		{"room for too much", joinFrames(header{frameReady, 0, coll(0), maxMessage + 1}), ErrProtocol, "says"},
		{"room too often", repeatFrames(1000, func(i int) header { return header{frameReady, 0, coll(uint64(i)), 1} }), ErrProtocol, "too many"},
		{"room twice", repeatFrames(2, func(int) header { return header{frameReady, 0, coll(4), 1} }), ErrProtocol, "again"},
		{"half a pair", joinFrames(header{frameReady, 0, key{src: noRank}, 1}), ErrProtocol, "ranks 4294967295 and 0"},
		{"credit for nothing", joinFrames(header{kind: frameCredit, size: 1}), ErrProtocol, "credit"},
		{"credit with a name", joinFrames(header{frameCredit, 0, coll(1), 1}), ErrProtocol, "names a message"},
		{"half a header", make([]byte, headerSize-1), io.ErrUnexpectedEOF, "connection lost"},
		{"half a payload", append(joinFrames(header{frameData, 0, message, 100}), make([]byte, 99)...), io.ErrUnexpectedEOF, "EOF"},
		{"leaving too soon", joinFrames(header{kind: frameBye}), ErrLeft, "left"},
		{"nothing", nil, io.EOF, "connection lost"},
		{"an abort that is no text", append(joinFrames(header{kind: frameAbort, size: 3}), 'a', 0xff, 'b'), ErrAborted, "a?b"},
		{"an abort that is an essay", joinFrames(header{kind: frameAbort, size: maxReason + 1}), ErrProtocol, "says 513"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVillain(t)
			memory := make([]byte, 300)
			done := make(chan error, 1)
			op := Op{Kind: Recv, Count: 100, Peer: 1, Recv: memory[100:200]}
			if err := v.comm.Issue(0, []Op{op}, func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			// Its room for the message shows that rank 0 waits.
			if _, err := io.ReadFull(v.conn, make([]byte, headerSize)); err != nil {
				t.Fatal(err)
			}
			go func() { // the villain may be hung up on
				v.conn.Write(c.bytes)
				v.conn.(*net.TCPConn).CloseWrite()
			}()
			err := waitForValue(t, done)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the operation's error = %v, want %v …%s", err, c.want, c.says)
			}
			for i, b := range memory {
				if b != 0 {
					t.Errorf("byte %d of the memory was written", i)
				}
			}
			v.checkHealthy()
		})
	}
}

// TestSilentPeer: a peer that sends no bytes holds up only its own communicator, and Abort ends that.
func TestSilentPeer(t *testing.T) {
	const size = 64 << 20 // more than sockets hold
	v := newVillain(t)
	done := make(chan error, 1)
	op := Op{Kind: Send, Count: size, Peer: 1, Send: make([]byte, size)}
	if err := v.comm.Issue(0, []Op{op}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	// The villain has room for the whole message and reads no byte: the writer is stuck in a write.
	v.conn.Write(joinFrames(header{frameReady, 0, key{src: 0, dst: 1}, size}))
	v.checkHealthy()
	v.comm.Abort()
	if err := waitForValue(t, done); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
	waitForValue(t, v.comm.Done())
	v.checkHealthy()
}

// closedSoon checks that the other side hangs up.
func closedSoon(t *testing.T, conn net.Conn, what string) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, conn)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s: the connection stays open", what)
	}
}

// TestStrangers: the node hangs up on a caller that does not know the key, is not the process that it
// claims to be, or comes twice, and the communicator that is being made is not disturbed.
func TestStrangers(t *testing.T) {
	w := newNodes(t, []int{0, 1, 2}, nil, Config{})
	rosters := make(chan Roster, 2)
	for r := 1; r < 3; r++ {
		go func() {
			roster, _ := w.room.Meet(t.Context(), "x", 3, Member{Ranks: []int{r}, Address: "nobody dials it"})
			rosters <- roster
		}()
	}
	c, err := w.nodes[0].Start(t.Context(), w.spec("x", 0), w.room)
	if err != nil {
		t.Fatal(err)
	}
	k := waitForValue(t, rosters).Key
	right := makeTag(k, "x")

	plain := func(what string, bytes []byte) {
		conn, err := net.Dial("tcp", w.nodes[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write(bytes)
		closedSoon(t, conn, what)
	}
	plain("a web browser", []byte("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a long name so that it is long enough\r\n\r\n"))
	raw := newHello(right, 1, 0).raw
	plain("a hello and no proof", append(raw[:], make([]byte, 32)...))

	conn, err := net.Dial("tcp", w.nodes[0].Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := introduceSelf(conn, newKey(), newHello(right, 1, 0)); !errors.Is(err, ErrAuthentication) {
		t.Errorf("a listener with another key: %v", err)
	}
	conn.Close()
	for what, h := range map[string]hello{
		"the listener's own number":             newHello(right, 0, 0),
		"a number beyond":                       newHello(right, 3, 0),
		"another's number as the one who dials": newHello(right, 1, 2),
	} {
		conn, err := net.Dial("tcp", w.nodes[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		introduceSelf(conn, k, h)
		closedSoon(t, conn, what)
		conn.Close()
	}
	select {
	case <-c.Failed():
		t.Fatalf("the communicator that is being made failed: %v", c.Err())
	default:
	}
	w.dialNode(k, right, 1)
	for attached := false; !attached; time.Sleep(time.Millisecond) { // else the next may be faster
		c.mu.Lock()
		attached = c.links[1] != nil
		c.mu.Unlock()
	}
	closedSoon(t, w.dialNode(k, right, 1), "the same process twice")
	w.dialNode(k, right, 2)
	w.ready(c)
}

// TestManyStrangers: more strangers than there is room for do not keep a communicator from being made.
func TestManyStrangers(t *testing.T) {
	w := newNodes(t, []int{0, 1}, nil, Config{})
	for range maxHandshakes + 10 {
		conn, err := net.Dial("tcp", w.nodes[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	w.comms = w.createComms("world")
	w.checkHealthy()
}

// TestStrangersOfAnotherHost: more strangers of a host than there is room for do not end the handshake of a process of
// another host.
func TestStrangersOfAnotherHost(t *testing.T) {
	w := newNodes(t, []int{0}, nil, Config{Handshake: patience})
	dial := func(host string) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", w.nodes[0].Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	process := dial("127.0.0.1")
	var all []net.Conn
	for range maxHandshakes + 10 {
		all = append(all, dial("127.0.0.2"))
	}
	closedSoon(t, all[9], "the tenth stranger")
	k := newKey()
	roster := Roster{k, []Member{{Ranks: []int{0}, Address: w.nodes[0].Address()}, {Ranks: []int{1}}}}
	go w.nodes[0].Create(t.Context(), Spec{ID: "x", Size: 2, Ranks: []int{0}}, rosterOf(roster)) //nolint:errcheck // Create ends with the test
	process.SetDeadline(time.Now().Add(patience))
	if err := introduceSelf(process, k, newHello(makeTag(k, "x"), 1, 0)); err != nil {
		t.Errorf("the handshake of a process that came before the strangers: %v", err)
	}
}

// TestWrongListener: a dialler ends the handshake with a listener that has another key.
func TestWrongListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h, err := readHello(conn)
			if err == nil {
				examineHello(conn, newKey(), h)
			}
			conn.Close()
		}
	}()
	w := newNodes(t, []int{0}, nil, Config{Connect: 200 * time.Millisecond})
	roster := Roster{newKey(), []Member{{Ranks: []int{0}, Address: l.Addr().String()}, {Ranks: []int{1}}}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = w.nodes[0].Create(ctx, Spec{ID: "x", Size: 2, Ranks: []int{1}}, rosterOf(roster))
	if !errors.Is(err, ErrAuthentication) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
