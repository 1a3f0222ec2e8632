// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mandate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// A preemptd that died is followed within pollInterval + answerTimeout + pollInterval and three requests, which is
// less than ten seconds; a preemptd that lives has two renewIntervals to answer a question.
const (
	renewInterval  = 2 * time.Second // between the looks of the worker
	certainFor     = 4 * time.Second // for how long such a look makes the worker sure
	answerTimeout  = 5 * time.Second // how long a question may be there
	pollInterval   = time.Second     // between the looks of a waiting preemptd
	requestTimeout = 3 * time.Second // how long a request may take
)

// ErrLost says that this process does not have the mandate, or not any more.
var ErrLost = errors.New("another preemptd has the mandate that Slurm shows")

// Slurm is the part of a client of Slurm that the mandate uses. *slurmrest.Client is a Slurm.
type Slurm interface {
	Nodes(ctx context.Context) ([]slurmrest.Node, error)
	Reservations(ctx context.Context) ([]slurmrest.Reservation, error)
	CreateReservation(ctx context.Context, r slurmrest.NewReservation) error
	DeleteReservation(ctx context.Context, name string) error
}

// Mandate is the mandate, as this process sees it. Await, Keep and Release are called in this order
// by a single goroutine; any goroutine may call Sure.
type Mandate struct {
	slurm   Slurm
	me      string // "ctl:1a2b3c4d"
	clock   func() time.Duration
	memory  memory
	node    string // that the reservations name
	whyNone error  // why there is no mandate
	tries   int    // of making a reservation that were refused, in a row

	mu     sync.Mutex
	have   bool
	sure   time.Duration // since when
	change chan struct{} // closed when these change
}

// New makes the mandate of a host's journal; the id of the journal is eight hexadecimal digits. New
// sends no request.
func New(slurm Slurm, host, id string) *Mandate {
	me := foreign.ReplaceAllString(host, "-") + ":" + id
	return &Mandate{slurm: slurm, me: me, clock: sinceBoot, change: make(chan struct{})}
}

// sinceBoot goes on while the machine sleeps, and cannot be set.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // no error: every Linux has that clock
	return time.Duration(ts.Nano())
}

// Holder names the holder of the mandate, for people.
type Holder struct {
	Host        string
	Reservation string // that says so
}

func (h Holder) String() string {
	return fmt.Sprintf("the one on %s (reservation %s)", h.Host, h.Reservation)
}

func parseHolder(who string) Holder {
	host, _, _ := strings.Cut(who, ":")
	return Holder{Host: host, Reservation: "preemptd:works:" + who}
}

// WhyNoMandate is why Slurm shows no mandate of ours, after an Await that returned without one.
func (m *Mandate) WhyNoMandate() error { return m.whyNone }

// isDisabled reports whether we work without the mandate.
func (m *Mandate) isDisabled() bool { return m.whyNone != nil }

// Await waits until this process has the mandate, or until it is certain that Slurm will not let us
// make a mandate (WhyNoMandate). onHolder is called when another preemptd has the mandate, once for each, and
// onSilence when Slurm does not answer, once for each outage. Await returns ctx's error.
func (m *Mandate) Await(ctx context.Context, onHolder func(Holder), onSilence func(error)) error {
	said, gone := "", false
	for {
		at := m.clock()
		v, err := m.lookAtSlurm(ctx)
		if err == nil {
			for _, who := range v.works[:min(1, len(v.works))] {
				if who != said {
					said = who
					onHolder(parseHolder(who))
				}
			}
			var done bool
			if done, err = m.applyMove(ctx, v, at); done {
				return nil // Keep tries again; or the failure is why we have no mandate
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			m.memory.forgetCounts()
			if !gone {
				onSilence(err)
			}
		}
		gone = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval/2 + rand.N(pollInterval/2)): // two that yield to each other must not do so for ever
		}
	}
}

// applyMove makes the move that follows from a look, and reports whether this process may work now, with or without a
// failure.
func (m *Mandate) applyMove(ctx context.Context, v view, at time.Duration) (bool, error) {
	switch m.memory.nextMove(v, at) {
	case yield:
		return false, m.deleteReservation(ctx, "works", m.me)
	case ask:
		err := m.createReservation(ctx, "waits")
		m.memory.asked = m.clock() // before the request the question was not there
		return false, err
	case seize:
		return m.replaceSilentHolders(ctx, v)
	case take:
		return m.makeMandate(ctx)
	case work:
		// A question that is older than this process may be about to run out.
		if err := m.confirmMandate(ctx, v, at); err != nil {
			return false, err
		}
		if v.asked {
			return true, m.deleteReservation(ctx, "waits", m.me)
		}
		return true, nil
	}
	return false, nil
}

// replaceSilentHolders takes the mandates of preemptds that do not answer, if they are still silent then. Ours
// is there before theirs are gone: a preemptd that starts meanwhile is to see a mandate.
func (m *Mandate) replaceSilentHolders(ctx context.Context, v view) (bool, error) {
	if err := m.createReservation(ctx, "works"); err != nil {
		return false, err
	}
	for _, who := range v.works {
		if err := m.deleteReservation(ctx, "works", who); err != nil {
			return false, err
		}
	}
	at := m.clock()
	v, err := m.lookAtSlurm(ctx)
	if err != nil {
		return false, err
	}
	m.memory.mandateConfirmed(v, at)
	return m.applyMove(ctx, v, at)
}

// maxTries is how often a reservation may be refused before we work without the mandate.
const maxTries = 3

// makeMandate makes our mandate, and looks whether there is no other.
func (m *Mandate) makeMandate(ctx context.Context) (bool, error) {
	if m.whyNone != nil {
		return true, m.whyNone
	}
	refused := m.createReservation(ctx, "works")
	at := m.clock()
	v, err := m.lookAtSlurm(ctx)
	if err != nil {
		return false, err
	}
	if len(v.works) > 0 || v.mine || refused == nil {
		m.tries = 0
		return m.applyMove(ctx, v, at)
	}
	if m.tries++; !isFinal(refused) && (m.tries < maxTries || leavesPermissionOpen(refused)) {
		return false, refused
	}
	m.whyNone = refused
	return true, m.whyNone
}

// isFinal reports whether a repeated request would be refused again.
func isFinal(err error) bool {
	return errors.Is(err, slurmrest.ErrUnsupported) || errors.Is(err, slurmrest.ErrAccessDenied) || errors.Is(err, slurmrest.ErrNotSupported)
}

// leavesPermissionOpen reports whether a failure does not show which requests Slurm lets us make.
func leavesPermissionOpen(err error) bool {
	for _, is := range []error{
		slurmrest.ErrUncertain, slurmrest.ErrUnreachable, slurmrest.ErrController, slurmrest.ErrDatabase, slurmrest.ErrAuth, context.DeadlineExceeded,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return slurmrest.Retryable(err)
}

// Release gives the mandate back, and takes back a question. The caller still has the journal's
// mandate, and no action is under way any more.
func (m *Mandate) Release(ctx context.Context) error {
	m.setHeld(false, 0)
	v, err := m.lookAtSlurm(ctx)
	if err != nil {
		return err
	}
	if v.mine {
		err = m.deleteReservation(ctx, "works", m.me)
	}
	if v.asked {
		err = errors.Join(err, m.deleteReservation(ctx, "waits", m.me))
	}
	return err
}
