// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestTimeBesideBusyStream: an event that is over has its time at once, also if the clock was to be renewed by an event that
// waits behind another stream's kernel. Like the driver, the fake has no time between events unless both are over.
func TestTimeBesideBusyStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := openBackend(t, newFakeLibrary(t))
	p := &play{b: b, ctx: ctx}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range script {
		switch s.name {
		case "space", "map", "context", "stream", "allocate a little", "module":
			must(s.do(p))
		}
	}
	busy, err := p.cu.NewStream(backend.StreamConfig{NonBlocking: true})
	must(err)
	must(p.stream.Fill(backend.Fill{Addr: p.small, Element: 4, Width: 1}))
	must(p.stream.Synchronize(ctx))
	f, err := p.module.Function("spin")
	must(err)
	clock := &p.cu.(*cudaContext).clock
	clock.mu.Lock()
	clock.made = time.Time{} // long ago
	clock.mu.Unlock()
	must(busy.Launch(backend.Launch{Function: f, Grid: dimOf(1), Block: dimOf(1), Params: binary.LittleEndian.AppendUint64(nil, uint64(p.small))}))
	var events [2]backend.Event
	for i, st := range []backend.Stream{busy, p.stream} {
		events[i], err = p.cu.NewEvent(backend.EventConfig{})
		must(err)
		must(st.Record(events[i]))
	}
	must(events[1].Synchronize(ctx))
	early, err := events[1].Time()
	if err != nil {
		t.Errorf("Time of an event that is over: %v", err)
	}
	must(p.stream.Write(p.small, 4, 1)) // ends the kernel
	must(events[0].Synchronize(ctx))
	late, err := events[0].Time()
	must(err)
	if late <= early {
		t.Errorf("the kernel's end is at %v, and what was over before it at %v", late, early)
	}
	must(b.Close())
}

// TestTimeAfterSlowStart: an event's time is not in the future where the making of its context was held up. If it were, an
// event that is recorded after a move of the space could have an earlier time than an event from before the move.
func TestTimeAfterSlowStart(t *testing.T) {
	l := newFakeLibrary(t)
	p := &play{b: openBackend(t, l), ctx: t.Context()}
	l.Halt("cuEventQuery", 1) // the question whether the context's first moment is over
	t.Cleanup(l.Resume)
	made := make(chan error)
	go func() {
		var err error
		for _, s := range script {
			switch s.name {
			case "space", "map", "context", "stream":
				if err == nil {
					err = s.do(p)
				}
			}
		}
		made <- err
	}()
	for !l.Halted() {
		runtime.Gosched()
	}
	time.Sleep(50 * time.Millisecond) // the time by which the event would be in the future
	l.Resume()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(<-made)
	e, err := p.cu.NewEvent(backend.EventConfig{})
	must(err)
	must(p.stream.Record(e))
	must(p.stream.Synchronize(t.Context()))
	at, err := e.Time()
	must(err)
	if now := p.b.elapsed(); at > now {
		t.Errorf("an event that is over is at %v, and now is %v", at, now)
	}
	must(p.b.Close())
}
