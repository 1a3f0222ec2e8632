// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// maxAsked bounds the questions that the forwarder has at a time. The kernel repeats the request of a program that gets
// no answer, after a second and then less and less often.
const maxAsked = 128

// askPatience bounds a question. The forwarder answers earlier, unless its user has stopped it.
const askPatience = 2 * time.Minute

// refusals maps the cause for which the relay cannot connect to the error that the program's connect() gets. For a
// cause without an entry connect() gets no answer, and fails with ETIMEDOUT after the time that the kernel allows.
var refusals = map[stream.Cause]overlay.Refusal{
	stream.CauseRefused:    overlay.RefuseConnection,
	stream.CauseHost:       overlay.RefuseHost,
	stream.CauseNetwork:    overlay.RefuseNetwork,
	stream.CauseProhibited: overlay.RefuseProhibited,
}

// ends are the addresses of a connection.
type ends struct{ from, to netip.AddrPort }

// answers has programs' requests answered, except while the forwarder stands still: a connection that began then would
// have one end in the checkpoint, and no other end in the forwarder.
type answers struct {
	mu       sync.Mutex
	changed  sync.Cond
	withheld bool
	ended    bool
	asked    map[ends]bool
}

func (a *answers) changeState(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	a.changed.Broadcast()
}

func (a *answers) withholdAnswers() { a.changeState(func() { a.withheld = true }) }
func (a *answers) releaseAnswers()  { a.changeState(func() { a.withheld = false }) }
func (a *answers) endAnswers()      { a.changeState(func() { a.ended = true }) }

// beginQuestion notes a question. The result is false if the question is there already, or there are too many.
func (a *answers) beginQuestion(e ends) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked[e] || len(a.asked) >= maxAsked {
		return false
	}
	if a.asked == nil {
		a.asked = map[ends]bool{}
	}
	a.asked[e] = true
	return true
}

// finishQuestion gives the answer to a question, after the time in which the forwarder stands still. Without an answer give is nil.
func (a *answers) finishQuestion(e ends, give func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.asked, e)
	for a.withheld && !a.ended && give != nil {
		a.changed.Wait()
	}
	if a.ended || give == nil {
		return nil
	}
	return give()
}

// answerRequests answers the requests of programs for connections, until the end of the forwarder.
func (f *Forwarder) answerRequests(ctx context.Context, capsule int, log *slog.Logger) {
	for {
		q, err := f.requests.Next()
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			log.Error("requests for connections to outside cannot be read", "capsule", capsule, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(restartPause):
			}
			continue
		}
		e := ends{q.From, q.To}
		if !f.answers.beginQuestion(e) {
			continue
		}
		go func() {
			give, err := f.askForwarder(ctx, q)
			if err == nil {
				err = f.answers.finishQuestion(e, give)
			} else {
				_ = f.answers.finishQuestion(e, nil)
			}
			if err != nil && ctx.Err() == nil {
				log.Warn("a connection to outside waits", "capsule", capsule, "to", q.To, "error", err)
			}
		}()
	}
}

// askForwarder asks the forwarder for a connection, and returns a function that passes the answer to the program.
func (f *Forwarder) askForwarder(ctx context.Context, q overlay.Request) (give func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var cause stream.Cause
	err = f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) (err error) {
		cause, err = o.Ask(ctx, q.From.String(), q.To.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if cause == "" {
		return func() error { return f.requests.Grant(q) }, nil
	}
	why, ok := refusals[cause]
	if !ok {
		return nil, nil //nolint:nilnil // connect() gets no answer
	}
	return func() error { return f.requests.Refuse(q, why) }, nil
}
