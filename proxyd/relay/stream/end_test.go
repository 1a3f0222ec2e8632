// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "repeat the test with this seed")

// world is a connection between two programs, each at an end. Each program sends bytes that depend on
// their position alone, so that a byte too many, too few or in another place is seen.
type world struct {
	*rand.Rand
	ends  [2]End
	links [2][]*Frame // on their way to an end
	up    bool
	apps  [2]app
}

// app is a program: a checkpoint takes it together with its end.
type app struct {
	wrote, read  int
	closed, seen bool // has ended its direction, has seen the end of the other
}

// lengths of the directions.
var lengths = [2]int{3 * Window, 2*Window + 12345}

func byteAt(direction, n int) byte { return byte(n*7 + n>>8*13 + direction*101) }

// step lets a random event happen at an end.
func (w *world) step(t *testing.T) {
	t.Helper()
	k := w.IntN(2)
	e, a := &w.ends[k], &w.apps[k]
	switch w.IntN(4) {
	case 0: // the program writes
		n := min(w.IntN(40000), e.Room(), lengths[k]-a.wrote)
		b := make([]byte, n)
		for i := range b {
			b[i] = byteAt(k, a.wrote+i)
		}
		e.Write(b)
		if a.wrote += n; a.wrote == lengths[k] && !a.closed {
			e.CloseWrite()
			a.closed = true
		}
	case 1: // the program reads
		b, ends := e.Inbox()
		n := min(w.IntN(60000), len(b))
		for i := range n {
			if b[i] != byteAt(1-k, a.read+i) {
				t.Fatalf("end %d: byte %d is wrong", k, a.read+i)
			}
		}
		e.Consume(n)
		a.read += n
		if b, _ := e.Inbox(); ends && len(b) == 0 {
			a.seen = true
		}
	case 2: // a frame leaves
		if f := e.Pull(); w.up && f != nil {
			var b bytes.Buffer
			if err := WriteFrame(&b, f); err != nil {
				t.Fatal(err)
			}
			f, err := ReadFrame(&b)
			if err != nil {
				t.Fatal(err)
			}
			w.links[1-k] = append(w.links[1-k], f)
		}
	case 3: // a frame comes
		if len(w.links[k]) > 0 {
			if err := e.Receive(w.links[k][0]); err != nil {
				t.Fatal(err)
			}
			w.links[k] = w.links[k][1:]
		}
	}
}

// reconnect breaks the link, and makes another.
func (w *world) reconnect() error {
	w.links = [2][]*Frame{}
	at := [2]Position{w.ends[0].Position(), w.ends[1].Position()}
	w.up = true
	return errors.Join(w.ends[0].Resume(at[1]), w.ends[1].Resume(at[0]))
}

// takenState is a checkpoint of end 0 and its program.
type takenState struct {
	state State
	app   app
}

func (w *world) finished() bool {
	for k, a := range w.apps {
		if !a.seen || a.read != lengths[1-k] || !w.ends[k].Done() {
			return false
		}
	}
	return true
}

// TestCuts: links break at random moments, and the job leaves and comes back from a checkpoint of that
// moment. Each byte arrives once.
func TestCuts(t *testing.T) {
	for n := range uint64(20) {
		seed := n + 1
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), up: true}
			for steps := 0; !w.finished(); steps++ {
				if steps > 1_000_000 {
					t.Fatalf("does not end: %+v %+v %+v", w.apps, w.ends[0].Position(), w.ends[1].Position())
				}
				w.step(t)
				switch w.IntN(60) {
				case 0:
					if err := w.reconnect(); err != nil {
						t.Fatal(err)
					}
				case 1: // the job leaves with a checkpoint of this moment; the other end goes on meanwhile
					c := takenState{w.ends[0].State(), w.apps[0]}
					w.ends[0], w.links = End{}, [2][]*Frame{}
					for range w.IntN(30) {
						keep := w.apps[0]
						w.stepOther(t)
						w.apps[0] = keep
					}
					w.ends[0], w.apps[0] = FromState(c.state), c.app
					w.addUnread()
					if err := w.reconnect(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// addUnread adds the bytes that the program's socket had sent and the forwarder had not read at the checkpoint.
func (w *world) addUnread() {
	a := &w.apps[0]
	for range min(w.IntN(2*Window), lengths[0]-a.wrote) {
		w.ends[0].Write([]byte{byteAt(0, a.wrote)})
		a.wrote++
	}
	if a.wrote == lengths[0] && !a.closed {
		w.ends[0].CloseWrite()
		a.closed = true
	}
}

// stepOther lets a random event happen at end 1 while end 0 is away.
func (w *world) stepOther(t *testing.T) {
	t.Helper()
	first := w.ends[0]
	up := w.up
	w.up = false
	next := w.ends[1].next
	w.step(t)
	w.ends[0], w.up = first, up
	w.ends[1].next = max(next, w.ends[1].s.Base)
}

// TestOlder: the job comes back from a checkpoint after which it ran on. Either each byte still arrives once, or Resume
// returns an error.
func TestOlder(t *testing.T) {
	var resumed, refused int
	for seed := range uint64(120) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 2)), up: true}
		for range w.IntN(400) {
			w.step(t)
		}
		c := takenState{w.ends[0].State(), w.apps[0]}
		for range w.IntN(20) {
			w.step(t)
		}
		w.ends[0], w.apps[0] = FromState(c.state), c.app
		if err := w.reconnect(); err != nil {
			if !errors.Is(err, ErrMismatch) {
				t.Fatal(err)
			}
			refused++
			continue
		}
		resumed++
		for steps := 0; !w.finished(); steps++ {
			if steps > 1_000_000 {
				t.Fatalf("seed %d does not end", seed)
			}
			w.step(t)
		}
	}
	if resumed == 0 || refused == 0 {
		t.Errorf("%d resumed, %d refused: want some of both", resumed, refused)
	}
}

// TestNonsense: frames and positions that another program could send are refused.
func TestNonsense(t *testing.T) {
	for name, frames := range map[string][]*Frame{
		"more than the window": {{Kind: KindData, Data: make([]byte, Window)}, {Kind: KindData, Data: []byte{1}}},
		"data after the end":   {{Kind: KindEnd}, {Kind: KindData, Data: []byte{1}}},
		"two ends":             {{Kind: KindEnd}, {Kind: KindEnd}},
		"used what was unsent": {{Kind: KindUsed, Used: 1}},
		"a hello":              {{Kind: KindHello}},
	} {
		var e End
		var err error
		for _, f := range frames {
			err = errors.Join(err, e.Receive(f))
		}
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("Receive of %s: error %v, want ErrProtocol", name, err)
		}
	}
	for _, p := range []Position{{Received: 1}, {Base: 1, Limit: 1}} {
		var e End
		if err := e.Resume(p); !errors.Is(err, ErrMismatch) {
			t.Errorf("Resume at %+v: error %v, want ErrMismatch", p, err)
		}
	}
}

// FuzzReadFrame: a frame that was read is written with the same bytes.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{byte(KindData), 0, 0, 0, 1, 7})
	f.Add([]byte{byte(KindUsed), 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add([]byte{byte(KindEnd), 0, 0, 0, 0})
	f.Add([]byte{byte(KindData), 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := ReadFrame(r)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteFrame(&again, got); err != nil {
			t.Fatal(err)
		}
		if read := b[:len(b)-r.Len()]; !slices.Equal(read, again.Bytes()) {
			t.Errorf("%x was read, %x is written", read, again.Bytes())
		}
	})
}
