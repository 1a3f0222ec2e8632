// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The relay is a process of its own, without root's rights. Its parent, which can read credentials, sends orders over a
// pipe, a line of JSON each, and reads an answer to each from another pipe. The end of the pipe ends the process.

// Settings are the first order to the process.
type Settings struct {
	Allow   []netip.Prefix `json:"allow"`
	Deny    []netip.Prefix `json:"deny"`
	PerUser int            `json:"per_user"`
	Keep    time.Duration  `json:"keep"`
	Clients Clients        `json:"clients"`
}

type order struct {
	Settings *Settings  `json:"settings,omitempty"`
	Admit    *Admission `json:"admit,omitempty"`
	Forget   string     `json:"forget,omitempty"`
}

type answer struct {
	Error     string          `json:"error,omitempty"`
	Listening []ListeningPort `json:"listening,omitempty"` // of admit
}

// Run serves links, and orders that come by in, until in ends.
func Run(ctx context.Context, links net.Listener, in io.Reader, out io.Writer, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { links.Close() })()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var h *Holder
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var err error
		var a answer
		switch {
		case o.Settings != nil && h == nil:
			s := o.Settings
			h = New(ctx, Config{Policy: Policy{Allow: s.Allow, Deny: s.Deny}, PerUser: s.PerUser, Keep: s.Keep, Clients: s.Clients, Log: log})
			go func() { _ = h.Serve(links) }()
		case h == nil:
			err = errors.New("there are no settings yet")
		case o.Admit != nil:
			err = h.Admit(*o.Admit)
			a.Listening = h.Listening(o.Admit.Job)
		case o.Forget != "":
			h.Forget(o.Forget)
		default:
			err = errors.New("an order that is none")
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// Process is the relay's process as its parent uses it. A Process is safe for concurrent use.
type Process struct {
	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
}

// NewProcess returns the Process for a process with these pipes, and sends it the settings.
func NewProcess(in io.Writer, out io.Reader, s Settings) (*Process, error) {
	p := &Process{in: json.NewEncoder(in), out: json.NewDecoder(out)}
	_, err := p.sendOrder(order{Settings: &s})
	return p, err
}

// ErrProcess says that the relay's process does not answer.
var ErrProcess = errors.New("the relay's process does not answer")

func (p *Process) sendOrder(o order) (answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var a answer
	err := p.in.Encode(o)
	if err == nil {
		err = p.out.Decode(&a)
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %w", ErrProcess, err)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// Admit is Holder.Admit, and then Holder.Listening.
func (p *Process) Admit(a Admission) ([]ListeningPort, error) {
	said, err := p.sendOrder(order{Admit: &a})
	return said.Listening, err
}

// Forget is Holder.Forget.
func (p *Process) Forget(job string) error {
	_, err := p.sendOrder(order{Forget: job})
	return err
}
