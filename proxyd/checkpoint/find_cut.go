// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A job with devices is captured at a cut: all ranks have issued the same collectives, and none
// is in flight. The leader finds the cut (package cut) with the device servers of all capsules,
// before processes are frozen: until the cut is found, ranks may have to run on.

// findCut stops the job's devices at a cut. resumeDevices starts them again, at the end of the
// attempt or when the attempt is undone.
func (a *attempt) findCut(ctx context.Context) error {
	var members []cut.Member
	for _, node := range a.nodes {
		for _, index := range a.reports[node].Devices {
			members = append(members, &cutMember{a.j, node, index, a.id})
		}
	}
	if len(members) == 0 {
		return nil
	}
	a.cutNumber = a.j.nextCutNumber(time.Now())
	found, err := cut.Find(ctx, members, cut.Options{Attempt: a.cutNumber, Deadline: cutDeadline})
	if err != nil {
		return err
	}
	a.stoppedDevices = found
	return nil
}

// nextCutNumber returns a number higher than that of any earlier attempt of this run, also of a daemon that was killed: a device
// server refuses any other. The time alone would not do, because a node's clock may be set back. Only the leader calls it.
func (j *job) nextCutNumber(now time.Time) uint64 {
	number := uint64(now.UnixNano())
	j.mu.Lock()
	defer j.mu.Unlock()
	if lc := j.capsules[0]; lc != nil {
		number = max(number, lc.note.LastCut+1)
		lc.note.LastCut = number
		lc.saveNote()
	}
	return number
}

// cutDeadline bounds the wait for ranks that are behind.
const cutDeadline = 50 * time.Second

// resumeDevices lets the stopped devices work again. A second call is harmless.
func (a *attempt) resumeDevices(ctx context.Context) error {
	if a.stoppedDevices == nil {
		return nil
	}
	defer func() { a.stoppedDevices = nil }()
	return a.stoppedDevices.Open(ctx)
}

// cutMember is a device server of the job, on any node, as package cut calls it.
type cutMember struct {
	j     *job
	node  string
	index int // of its capsule
	id    store.ID
}

// errNoEvents is the reason why no cut can be found with a node if its daemon sends events in another form.
var errNoEvents = errors.New("the answer has no events that are known here: is the node's proxyd of another release?")

// Exchange implements cut.Member.
func (d *cutMember) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	r, err := callNode(ctx, d.j.c, d.node, d.j.id, d.id.Number, calls.Exchange, calls.ExchangeArgs{Index: d.index, Orders: o})
	if err != nil {
		return nil, err
	}
	switch {
	case r.Forgotten:
		return nil, fmt.Errorf("capsule %d: %w", d.index, cut.ErrForgotten)
	case r.Busy:
		return nil, fmt.Errorf("capsule %d: %w", d.index, cut.ErrBusy)
	case r.Error != "":
		return nil, fmt.Errorf("capsule %d: %s", d.index, r.Error)
	case r.Events == nil:
		return nil, fmt.Errorf("capsule %d: %w", d.index, errNoEvents)
	}
	return r.Events, nil
}

// exchangeHere passes orders to a device server of this node.
func (p *participant) exchangeHere(ctx context.Context, id store.ID, args calls.ExchangeArgs) (calls.ExchangeReply, error) {
	j := p.j
	p.restartLeaderTimeout(id)
	j.mu.Lock()
	lc := j.capsules[args.Index]
	j.mu.Unlock()
	if lc == nil || lc.devices == nil || args.Orders == nil {
		return calls.ExchangeReply{}, fmt.Errorf("capsule %d: %w", args.Index, errDevicesDied)
	}
	events, err := lc.devices.Exchange(ctx, args.Orders)
	r := calls.ExchangeReply{Events: events, Forgotten: errors.Is(err, cut.ErrForgotten), Busy: errors.Is(err, cut.ErrBusy)}
	if err != nil {
		r.Error = err.Error()
	}
	return r, nil
}
