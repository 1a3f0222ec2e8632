// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package lease

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

// ErrLost says that this process does not have the lease, or not any more.
var ErrLost = errors.New("another preemptd has the lease that Slurm shows")

// Slurm is the part of a client of Slurm that the lease uses. *slurmrest.Client is a Slurm.
type Slurm interface {
	Nodes(ctx context.Context) ([]slurmrest.Node, error)
	Reservations(ctx context.Context) ([]slurmrest.Reservation, error)
	CreateReservation(ctx context.Context, r slurmrest.NewReservation) error
	DeleteReservation(ctx context.Context, name string) error
}

// Lease is the lease, as this process sees it. Await, Keep and Release are called in this order
// by a single goroutine; any goroutine may call Sure.
type Lease struct {
	slurm   Slurm
	me      string // "ctl:1a2b3c4d"
	clock   func() time.Duration
	memory  memory
	node    string // that the reservations name
	whyNone error  // why there is no lease
	tries   int    // of making a reservation that were refused, in a row

	mu     sync.Mutex
	have   bool
	sure   time.Duration // since when
	change chan struct{} // closed when these change
}

// New makes the lease of a host's journal; the id of the journal is eight hexadecimal digits. New
// sends no request.
func New(slurm Slurm, host, id string) *Lease {
	me := foreign.ReplaceAllString(host, "-") + ":" + id
	return &Lease{slurm: slurm, me: me, clock: sinceBoot, change: make(chan struct{})}
}

// sinceBoot goes on while the machine sleeps, and cannot be set.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // no error: every Linux has that clock
	return time.Duration(ts.Nano())
}

// Holder names the holder of the lease, for people.
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

// WhyNoLease is why Slurm shows no lease of ours, after an Await that returned without one.
func (l *Lease) WhyNoLease() error { return l.whyNone }

// isDisabled reports whether we work without the lease.
func (l *Lease) isDisabled() bool { return l.whyNone != nil }

// Await waits until this process has the lease, or until it is certain that Slurm will not let us
// make a lease (WhyNoLease). onHolder is called when another preemptd has the lease, once for each, and
// onSilence when Slurm does not answer, once for each outage. Await returns ctx's error.
func (l *Lease) Await(ctx context.Context, onHolder func(Holder), onSilence func(error)) error {
	said, gone := "", false
	for {
		at := l.clock()
		v, err := l.lookAtSlurm(ctx)
		if err == nil {
			for _, who := range v.works[:min(1, len(v.works))] {
				if who != said {
					said = who
					onHolder(parseHolder(who))
				}
			}
			var done bool
			if done, err = l.applyMove(ctx, v, at); done {
				return nil // Keep tries again; or the failure is why we have no lease
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.memory.forgetCounts()
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
func (l *Lease) applyMove(ctx context.Context, v view, at time.Duration) (bool, error) {
	switch l.memory.nextMove(v, at) {
	case yield:
		return false, l.deleteReservation(ctx, "works", l.me)
	case ask:
		err := l.createReservation(ctx, "waits")
		l.memory.asked = l.clock() // before the request the question was not there
		return false, err
	case seize:
		return l.replaceSilentHolders(ctx, v)
	case take:
		return l.makeLease(ctx)
	case work:
		// A question that is older than this process may be about to run out.
		if err := l.confirmLease(ctx, v, at); err != nil {
			return false, err
		}
		if v.asked {
			return true, l.deleteReservation(ctx, "waits", l.me)
		}
		return true, nil
	}
	return false, nil
}

// replaceSilentHolders takes the leases of preemptds that do not answer, if they are still silent then. Ours
// is there before theirs are gone: a preemptd that starts meanwhile is to see a lease.
func (l *Lease) replaceSilentHolders(ctx context.Context, v view) (bool, error) {
	if err := l.createReservation(ctx, "works"); err != nil {
		return false, err
	}
	for _, who := range v.works {
		if err := l.deleteReservation(ctx, "works", who); err != nil {
			return false, err
		}
	}
	at := l.clock()
	v, err := l.lookAtSlurm(ctx)
	if err != nil {
		return false, err
	}
	l.memory.leaseConfirmed(v, at)
	return l.applyMove(ctx, v, at)
}

// maxTries is how often a reservation may be refused before we work without the lease.
const maxTries = 3

// makeLease makes our lease, and looks whether there is no other.
func (l *Lease) makeLease(ctx context.Context) (bool, error) {
	if l.whyNone != nil {
		return true, l.whyNone
	}
	refused := l.createReservation(ctx, "works")
	at := l.clock()
	v, err := l.lookAtSlurm(ctx)
	if err != nil {
		return false, err
	}
	if len(v.works) > 0 || v.mine || refused == nil {
		l.tries = 0
		return l.applyMove(ctx, v, at)
	}
	if l.tries++; !isFinal(refused) && (l.tries < maxTries || leavesPermissionOpen(refused)) {
		return false, refused
	}
	l.whyNone = refused
	return true, l.whyNone
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

// Release gives the lease back, and takes back a question. The caller still has the journal's
// lease, and no action is under way any more.
func (l *Lease) Release(ctx context.Context) error {
	l.setHeld(false, 0)
	v, err := l.lookAtSlurm(ctx)
	if err != nil {
		return err
	}
	if v.mine {
		err = l.deleteReservation(ctx, "works", l.me)
	}
	if v.asked {
		err = errors.Join(err, l.deleteReservation(ctx, "waits", l.me))
	}
	return err
}
