// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// answering is a node that answers all calls in the same way.
type answering struct{ reply *rpc.ExchangeReply }

// Call implements Remote.
func (a answering) Call(context.Context, string, *rpc.CallRequest) (*rpc.CallReply, error) {
	return &rpc.CallReply{Reply: &rpc.CallReply_Exchange{Exchange: a.reply}}, nil
}

// TestExchangeAnswers: package cut gets events, or an error of its own. An answer with nothing, as a daemon of another
// release may give, is an error too.
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
		c := (&Conductor{Config: Config{Node: "n1"}, Deps: Deps{Remote: answering{tt.reply}}}).wireParts()
		d := &cutMember{j: (&job{c: c, id: 7}).wireParts(), node: "n2"}
		events, err := d.Exchange(t.Context(), &cut.Orders{Attempt: 1})
		if !errors.Is(err, tt.want) || (err == nil) != (events != nil) {
			t.Errorf("%v: %v, %v, want %v", tt.reply, events, err, tt.want)
		}
	}
}
