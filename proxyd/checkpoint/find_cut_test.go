// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// answering is a node that answers all calls in the same way.
type answering struct{ reply *rpc.ExchangeReply }

// Call implements NodeCaller.
func (a answering) Call(context.Context, string, *rpc.CallRequest) (*rpc.CallReply, error) {
	return &rpc.CallReply{Reply: &rpc.CallReply_Exchange{Exchange: a.reply}}, nil
}

// TestExchangeAnswers: package cut gets events, or an error of its own. An empty answer, as a daemon of another release
// may give, is an error too.
func TestExchangeAnswers(t *testing.T) {
	for _, tt := range []struct {
		reply *rpc.ExchangeReply
		want  error
	}{
		{&rpc.ExchangeReply{Events: &rpc.CutEvents{Next: 3}}, nil},
		{&rpc.ExchangeReply{Forgotten: true}, cut.ErrForgotten},
		{&rpc.ExchangeReply{Busy: true}, cut.ErrBusy},
		{&rpc.ExchangeReply{}, errNoEvents},
	} {
		c := (&Conductor{Config: Config{Node: "n1"}, Deps: Deps{Remote: answering{tt.reply}}}).linkPartsToConductor()
		d := &cutMember{j: (&job{c: c, id: 7}).linkPartsToJob(), node: "n2"}
		events, err := d.Exchange(t.Context(), &cut.Orders{Attempt: 1})
		if !errors.Is(err, tt.want) || (err == nil) != (events != nil) {
			t.Errorf("%v: %v, %v, want %v", tt.reply, events, err, tt.want)
		}
	}
}

// TestCutNumberRises: the numbers of attempts at a cut rise although the node's clock is set back, also for the daemon's
// successor, which has the capsule's note.
func TestCutNumberRises(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	adopt := func() *job {
		j := (&job{c: c, id: 7, log: c.Log}).linkPartsToJob()
		note, err := readNote(c.folders().notePath(7, 0))
		if err != nil {
			note = capsuleNote{Job: 7}
		}
		j.capsules = map[int]*localCapsule{0: {j: j, note: note}}
		return j
	}
	ahead := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	j := adopt()
	last := j.nextCutNumber(ahead)
	if last != uint64(ahead.UnixNano()) {
		t.Errorf("the first number is %d", last)
	}
	for n, now := range []time.Time{ahead.Add(-time.Hour), ahead.Add(-time.Hour), ahead.Add(time.Hour), ahead} {
		if n == 1 {
			j = adopt()
		}
		number := j.nextCutNumber(now)
		if number <= last {
			t.Errorf("%d follows %d", number, last)
		}
		last = number
	}
}
