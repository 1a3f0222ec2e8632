// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// How long the gates stay shut at a time, while work under way does not end: the message that ends it may be behind the
// gates.
const (
	firstTry          = 50 * time.Millisecond
	longTry           = 5 * time.Second
	pauseBetweenTries = 5 * time.Millisecond
)

// saveBlocker is a part of a process that may be in a state that cannot be saved: Unsaved says why, or "".
type saveBlocker interface{ Unsaved() string }

// findRefusals returns the first reason for which a save would fail after any number of tries.
func (s *Server) findRefusals() error {
	for _, p := range s.allProcesses() {
		if err := p.checkSavable(); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) checkSavable() error {
	if why := p.whyNotSavable(); why != "" {
		return fmt.Errorf("process %d: %s: %w", int(p.Peer.Memory()), why, ErrNotSaved)
	}
	return nil
}

// whyNotSavable says why a process cannot be saved, or "". A process that is gone has no objects to be saved. Its end may
// begin during the look: then the contexts are closed, which is no reason.
func (p *process) whyNotSavable() string {
	if why := p.findUnsaved(); why != "" && !p.IsGone() {
		return why
	}
	return ""
}

// findUnsaved names what cannot be saved of a process that is not gone, or returns "".
func (p *process) findUnsaved() string {
	if f := p.Fault.Load(); f != 0 {
		return fmt.Sprintf("a fault, %d, has ended its use of devices", f)
	}
	for _, x := range p.Contexts.Values() {
		if err := x.Backend.Err(); err != nil {
			return fmt.Sprintf("context %#x: %v", x.Handle, err)
		}
	}
	for _, part := range []saveBlocker{p.ncclCalls, &p.history} {
		if why := part.Unsaved(); why != "" {
			return why
		}
	}
	return ""
}

// stopJob stops the job: when stopJob returns nil, no message passes any gate, no call is under way, every answer was
// taken, and the devices are idle; work queued on them is held. On failure everything is open. The caller holds
// state.mu.
func (s *Server) stopJob(ctx context.Context) error {
	s.state.admission.Lock()
	for try := firstTry; ; {
		all := s.allProcesses()
		err := s.tryCut(ctx, all, try, (*process).waitUntilQuiet)
		if err == nil {
			if err = s.findRefusals(); err == nil {
				return nil
			}
			s.openGates(all)
			s.state.admission.Unlock()
			return err
		}
		s.openGates(all)
		// An uneven try was over at once, and the next may be even.
		if !errors.Is(err, nccl.ErrUneven) {
			try = min(2*try, longTry)
		}
		t := time.NewTimer(rand.N(pauseBetweenTries))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			s.state.admission.Unlock()
			return fmt.Errorf("stop the job: %w", errors.Join(err, context.Cause(ctx)))
		}
	}
}

// tryCut shuts the gates and waits for the work under way, for a while: rest does so for a process.
func (s *Server) tryCut(ctx context.Context, all []*process, within time.Duration, rest func(*process, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	errs := make([]error, len(all))
	for _, p := range all {
		p.Interrupt.Begin()
		p.Limit.SetShut(true)
		_ = p.Ring.Shut(wire.Calls) // fails for a process that is gone, which does not matter
	}
	s.collectives.HoldMeetings()
	if err := nccl.Uneven(callsOf(all)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = rest(p, ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// openGates opens the gates that tryCut has shut.
func (s *Server) openGates(all []*process) {
	s.collectives.ReleaseMeetings()
	for _, p := range all {
		p.Interrupt.End()
		p.Limit.SetShut(false)
		p.ReleaseParts()
		p.ResumeWork()
		if p.Ring != nil {
			_ = p.Ring.Open(wire.Calls)
		}
	}
}

// settler is a peer that may not have its ring yet.
type settler interface{ Settled() bool }

// explainUnquiet returns an error that names the calls or work that the process still has under way, or nil if the
// process is gone.
func (p *process) explainUnquiet(what string, err error) error {
	if p.IsGone() {
		return nil
	}
	return &unquietError{p.ID, p.PID(), what, err}
}

// restCalls waits until no call of a process is under way.
func (p *process) restCalls(ctx context.Context) error {
	if w, ok := p.Peer.(settler); ok && !w.Settled() {
		if !p.heard.Load() {
			return p.explainUnquiet("is being attached", errors.New("its ring is not mapped"))
		}
		p.endProcess("it executes another program") // and a child of the process has its end of the pipe, or this would be known
		return nil
	}
	if busy, err := p.Ring.Rest(ctx); err != nil {
		return p.explainUnquiet(fmt.Sprintf("%d messages, %d calls without an answer, %d threads that have not taken theirs", busy.Queued, busy.Calls, len(busy.Inside)), err)
	}
	return nil
}

// waitUntilQuiet waits until no work of a process is under way.
func (p *process) waitUntilQuiet(ctx context.Context) error {
	if err := p.restCalls(ctx); err != nil || p.IsGone() {
		return err
	}
	if err := p.waitForCommunicators(ctx); err != nil {
		return p.explainUnquiet("a communicator", err)
	}
	if err := p.holdWork(ctx); err != nil {
		return p.explainUnquiet("its devices have work that does not end and cannot be held", err)
	}
	p.Output.Flush(ctx)
	return ctx.Err()
}
