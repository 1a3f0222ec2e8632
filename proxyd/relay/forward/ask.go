// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// ends are the addresses of a connection, as its program sees them.
type ends struct{ from, to string }

// grantedConnection is a connection that the relay has, and the forwarder has not: the program's connect() is about to
// succeed.
type grantedConnection struct {
	id string
	at time.Time
}

// grantPatience is how long the relay keeps a connection for a program that has meanwhile given up connect().
const grantPatience = 10 * time.Second

// requestConnection has the relay connect to the address that a program asks for. The result is the cause with which
// connect() is to fail, or "". A relay that does not answer is asked again, while connect() waits.
func (f *Forwarder) requestConnection(ctx context.Context, e ends) stream.Cause {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	f.mu.Lock()
	there, full := f.granted[e] != nil, len(f.connections)+len(f.granted) >= maxConnections
	f.mu.Unlock()
	switch {
	case there:
		return ""
	case full:
		f.log.Warn("connection refused", "to", e.to, "reason", "there are too many")
		return stream.CauseProhibited
	}
	id := rand.Text()
	for retry := firstRetry; ; retry = min(2*retry, longestRetry) {
		relay, changed := f.currentRelay()
		over, err := f.requestOverLink(ctx, relay, stream.Hello{ID: id, To: e.to})
		switch {
		case err == nil && over == nil:
			f.addGranted(e, id)
			return ""
		case err == nil:
			f.log.Info("connection refused", "to", e.to, "reason", over.Reason)
			return cmp.Or(over.Cause, stream.CauseProhibited)
		}
		select {
		case <-ctx.Done():
			f.log.Warn("the relay does not answer", "to", e.to, "error", err)
			return stream.CauseTime
		case <-changed:
		case <-time.After(retry):
		}
	}
}

// requestOverLink asks the relay for a connection by a link. The connection stays in the relay. over is the relay's
// refusal.
func (f *Forwarder) requestOverLink(ctx context.Context, to Relay, hello stream.Hello) (over *stream.ConnectionEnd, err error) {
	if to.Address == "" {
		return nil, errors.New("the relay has not admitted the job yet")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the link
	hello.Ticket = to.Ticket
	_, answer, err := sayHello(ctx, to.Address, func() stream.Hello { return hello })
	if err != nil {
		return nil, err
	}
	switch answer.Kind {
	case stream.KindWelcome:
		f.setRefused(false)
		return nil, nil //nolint:nilnil // no refusal
	case stream.KindOver:
		over = &stream.ConnectionEnd{}
		if err := answer.Parse(over); err != nil {
			return nil, err
		}
		if over.Retry {
			f.setRefused(true)
			return nil, errors.New(over.Reason)
		}
		return over, nil
	default:
		return nil, fmt.Errorf("%w: kind %d instead of an answer", stream.ErrProtocol, answer.Kind)
	}
}

// addGranted notes a connection that a program will have soon.
func (f *Forwarder) addGranted(e ends, id string) {
	f.mu.Lock()
	f.granted[e] = &grantedConnection{id: id, at: time.Now()}
	f.mu.Unlock()
	time.AfterFunc(grantPatience, func() { f.expireGranted(e, id) })
}

// popGrantedID returns the name of the relay's connection for a program's, or "" if the relay has none for it.
func (f *Forwarder) popGrantedID(e ends) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.granted[e]
	if g == nil {
		return ""
	}
	delete(f.granted, e)
	return g.id
}

// expireGranted has the relay end a connection that no program has taken, for example because its connect() was
// interrupted.
func (f *Forwarder) expireGranted(e ends, id string) {
	f.rest.RLock() // between hold and go no program can take its connection
	f.mu.Lock()
	g := f.granted[e]
	wait := time.Duration(0)
	if g != nil && g.id == id {
		if wait = grantPatience - min(time.Since(g.at), time.Since(f.wentOn)); wait <= 0 {
			delete(f.granted, e)
		}
	}
	relay := f.relay
	f.mu.Unlock()
	f.rest.RUnlock()
	switch {
	case g == nil || g.id != id || f.ctx.Err() != nil:
	case wait > 0:
		time.AfterFunc(wait, func() { f.expireGranted(e, id) })
	default:
		ctx, cancel := context.WithTimeout(f.ctx, lastPatience)
		defer cancel()
		if _, err := f.requestOverLink(ctx, relay, stream.Hello{ID: id, To: e.to, Opened: true, Over: "the program has given it up"}); err != nil {
			f.log.Warn("the relay keeps a connection that no program has", "to", e.to, "error", err)
		}
	}
}
