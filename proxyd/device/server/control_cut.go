// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// exchangeAnswer is the answer to an exchange. Two errors have names, which must not be lost.
type exchangeAnswer struct {
	Events    *cut.Events `json:"events,omitempty"`
	Forgotten string      `json:"forgotten,omitempty"` // the text of an error that is cut.ErrForgotten
	Busy      string      `json:"busy,omitempty"`      // of an error that is cut.ErrBusy
}

// exchangeEvents carries out an order to exchange.
func (s *Server) exchangeEvents(ctx context.Context, o *cut.Orders) (*exchangeAnswer, error) {
	if o == nil {
		return nil, errors.New("an exchange without orders")
	}
	e, err := s.Exchange(ctx, o)
	switch {
	case errors.Is(err, cut.ErrForgotten):
		return &exchangeAnswer{Forgotten: err.Error()}, nil
	case errors.Is(err, cut.ErrBusy):
		return &exchangeAnswer{Busy: err.Error()}, nil
	}
	return &exchangeAnswer{Events: e}, err
}

// Exchange implements cut.Member; see Server.Exchange.
func (c *Controller) Exchange(ctx context.Context, o *cut.Orders) (*cut.Events, error) {
	t, err := c.giveOrder(ctx, &order{Do: "exchange", Orders: o}, nil, nil)
	if err != nil {
		return nil, err
	}
	var e exchangeAnswer
	if err := t.parseInto(&e); err != nil {
		return nil, err
	}
	switch {
	case e.Forgotten != "":
		return nil, fmt.Errorf("%w (%s)", cut.ErrForgotten, plainText(e.Forgotten))
	case e.Busy != "":
		return nil, fmt.Errorf("%w (%s)", cut.ErrBusy, plainText(e.Busy))
	case e.Events == nil:
		return nil, fmt.Errorf("it has carried out orders and says nothing of it: %w", ErrNonsense)
	}
	for i := range e.Events.List {
		e.Events.List[i].Reason = plainText(e.Events.List[i].Reason)
	}
	return e.Events, nil
}
