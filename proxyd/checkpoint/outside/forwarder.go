// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package outside keeps the TCP connections of a capsule to outside of its job by the site's relay. The package starts the
// capsule's forwarder (package relay/forward), has the relay admit it, and saves and makes again both ends of each
// connection within the capsule.
//
//	make       connections of the capsule are diverted to the forwarder, before a program runs
//	run        the relay is told of the capsule, again and again
//	freeze     the forwarder connects no more clients to programs
//	halt       the forwarder stands still, then the capsule's network is locked
//	dump       the forwarder's state is saved, with its ends of the connections
//	restore    another forwarder gets that state, and stands still
//	unlock     the network is unlocked, then the forwarder goes on
//	remove     the forwarder is ended with the capsule
//
// The forwarder stands still before the network is locked and goes on after the unlock: a reset that the forwarder sends
// in between would be dropped, and its program would wait for ever.
package outside

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// Relay is the site's relay.
type Relay interface {
	// Admit has the relay take connections of a capsule.
	Admit(ctx context.Context, req *rpc.AdmitRequest) (rpc.AdmittedCapsule, error)
	// Forget ends the connections of a job that is over.
	Forget(ctx context.Context, job string) error
}

// Note holds the facts about a capsule's connections that a successor of the daemon needs.
type Note struct {
	Ticket  string   `json:"ticket"`
	Names   []string `json:"names,omitempty"`   // of connections that come from the checkpoint
	Sockets []Ends   `json:"sockets,omitempty"` // their ends
}

// Ends are the addresses of a connection, as the program sees them.
type Ends struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Spec describes a capsule.
type Spec struct {
	Dir      string // for the forwarder; must not exist
	Init     int    // PID of the capsule's first process
	UID, GID uint32
	Cgroup   string // for the forwarder, within the job's; "" if there is none yet
	Divert   func(pid int) (*os.File, error)
	Clients  forward.Ports // ports that clients outside can reach
}

// Forwarder is the forwarder of a capsule. A Forwarder is safe for concurrent use.
type Forwarder struct {
	spec Spec
	note Note

	requests *overlay.Requests
	answers  answers

	mu        sync.Mutex
	process   *life.Server
	address   string // of the relay, for connections
	reachable []*rpc.Reachable
}

// Start starts the forwarder of a new capsule, and diverts the capsule's connections to the forwarder.
func Start(ctx context.Context, spec Spec) (*Forwarder, error) {
	f := newForwarder(spec, Note{Ticket: rand.Text()})
	if err := f.startProcess(ctx, spec.Divert); err != nil {
		return nil, err
	}
	var err error
	if f.requests, err = overlay.DivertRequests(spec.Init); err != nil {
		return nil, errors.Join(err, f.currentProcess().End(context.WithoutCancel(ctx)))
	}
	return f, nil
}

func newForwarder(spec Spec, note Note) *Forwarder {
	f := &Forwarder{spec: spec, note: note}
	f.answers.changed.L = &f.answers.mu
	return f
}

// startProcess starts the process, with a listener.
func (f *Forwarder) startProcess(ctx context.Context, listen func(int) (*os.File, error)) error {
	listener, err := listen(f.spec.Init)
	if err != nil {
		return err
	}
	defer listener.Close()
	p, err := life.Start(ctx, life.Spec{Helper: "forward", Dir: f.spec.Dir, UID: f.spec.UID, GID: f.spec.GID, Cgroup: f.spec.Cgroup})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.process = p
	to := forward.Relay{Address: f.address, Ticket: f.note.Ticket, Clients: f.spec.Clients}
	f.mu.Unlock()
	err = f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Begin(ctx, to, listener) })
	if err != nil {
		return errors.Join(err, p.End(context.WithoutCancel(ctx)))
	}
	return nil
}

// Find returns the forwarder that a predecessor of the daemon has started; nil if there is none.
func Find(ctx context.Context, spec Spec, note *Note) (*Forwarder, error) {
	if note == nil {
		return nil, nil //nolint:nilnil // no error: the job has no relay
	}
	p, err := life.Find(ctx, spec.Dir)
	if err != nil || p == nil {
		return nil, err
	}
	f := newForwarder(spec, *note)
	f.process = p
	if f.requests, err = overlay.DivertRequests(spec.Init); err != nil {
		return nil, err
	}
	return f, nil
}

// Note returns the note for a successor of the daemon.
func (f *Forwarder) Note() *Note { return &f.note }

// End ends the forwarder. A second call is harmless.
func (f *Forwarder) End(ctx context.Context) error {
	f.answers.endAnswers()
	return errors.Join(f.requests.Close(), f.currentProcess().End(ctx))
}

// EndProcess ends the forwarder's process. Serve starts another.
func (f *Forwarder) EndProcess(ctx context.Context) error { return f.currentProcess().End(ctx) }

// EndLeftover ends a forwarder of an earlier run or of a dead daemon.
func EndLeftover(ctx context.Context, dir string) error {
	p, err := life.Find(ctx, dir)
	if err != nil || p == nil {
		return err
	}
	return p.End(ctx)
}

// EndUnknown ends the forwarders in a folder that are not known.
func EndUnknown(ctx context.Context, dir string, isKnown func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !isKnown(e.Name()) {
			err = errors.Join(err, EndLeftover(ctx, filepath.Join(dir, e.Name())))
		}
	}
	return err
}

func (f *Forwarder) currentProcess() *life.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.process
}

// HasDied tells whether the forwarder's process has ended.
func (f *Forwarder) HasDied() bool {
	select {
	case <-f.currentProcess().Died():
		return true
	default:
		return false
	}
}

// Cgroup returns the forwarder's own cgroup, or "".
func (f *Forwarder) Cgroup() string { return f.currentProcess().Cgroup() }

// Enter moves a forwarder without a cgroup into a cgroup.
func (f *Forwarder) Enter(cgroup string) error { return f.currentProcess().Enter(cgroup) }

// sendOrder gives an order. The error is ErrStopped if the forwarder's process is stopped and so does not answer.
func (f *Forwarder) sendOrder(ctx context.Context, give func(context.Context, forward.Orders) error) error {
	p := f.currentProcess()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if awaitStopped(ctx, p) {
			cancel(ErrStopped)
		}
	}()
	c, err := p.Dial(ctx)
	if err == nil {
		o := forward.NewOrders(c)
		defer o.Close()
		err = give(ctx, o)
	}
	if err != nil && context.Cause(ctx) == ErrStopped { //nolint:errorlint // the very error
		err = ErrStopped
	}
	if err != nil {
		return fmt.Errorf("forwarder: process %d: %w", p.PID(), err)
	}
	return nil
}

// Hold has the forwarder stand still, until Continue. A second call is harmless.
func (f *Forwarder) Hold(ctx context.Context) error {
	f.answers.withholdAnswers()
	return f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Hold(ctx, nil) })
}

// Continue ends what Hold has begun: the forwarder passes bytes on again. A second call is harmless.
func (f *Forwarder) Continue(ctx context.Context) error {
	err := f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Continue(ctx) })
	f.answers.releaseAnswers()
	return err
}

// Status returns the connections, and the lost connections.
func (f *Forwarder) Status(ctx context.Context) (s forward.Status, err error) {
	err = f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) (err error) {
		s, err = o.Status(ctx)
		return err
	})
	return s, err
}

// Times between tries.
const (
	admitInterval  = 30 * time.Second
	admitRetry     = time.Second
	refusedLook    = time.Second // between looks whether the relay still knows the ticket
	restartPause   = time.Second
	resumePatience = 2 * time.Minute
	resumeLook     = 200 * time.Millisecond
)

// Admission describes the capsule to the relay.
type Admission struct {
	Job     string // distinguishes the job from all other jobs
	Run     int
	Capsule int
	// Changed, if not nil, is called when clients reach other ports than before.
	Changed func([]*rpc.Reachable)
}

// Serve has the relay admit the capsule, tells the forwarder where the relay is, and replaces a forwarder that
// has died, until ctx ends.
func (f *Forwarder) Serve(ctx context.Context, relay Relay, a Admission, log *slog.Logger) {
	go f.answerRequests(ctx, a.Capsule, log)
	logged := ""
	for {
		wait := admitInterval
		admitted, err := f.admitCapsule(ctx, relay, a)
		if err == nil {
			err = f.sendRelayAddress(ctx, admitted.Address)
		}
		if err != nil {
			wait = admitRetry
		}
		if err != nil && ctx.Err() == nil && logged != err.Error() {
			logged = err.Error()
			log.Warn("the relay has not admitted the capsule: its connections to outside wait", "capsule", a.Capsule, "error", err)
		}
		if err == nil && logged != "" {
			logged = ""
			log.Info("the relay has admitted the capsule", "capsule", a.Capsule)
		}
		died := f.awaitAdmission(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		if died {
			log.Error("the forwarder has died: the capsule's connections to outside are lost", "capsule", a.Capsule)
			select { // its user may kill it again and again
			case <-ctx.Done():
				return
			case <-time.After(restartPause):
			}
			if err := f.restartProcess(ctx); err != nil {
				log.Error("cannot start a forwarder", "capsule", a.Capsule, "error", err)
			}
		}
	}
}

// awaitAdmission waits until the relay is to be asked again: after a while, or as soon as the relay turns out not to
// know the ticket. died tells that the forwarder has died.
func (f *Forwarder) awaitAdmission(ctx context.Context, wait time.Duration) (died bool) {
	end := time.NewTimer(wait)
	defer end.Stop()
	look := time.NewTicker(refusedLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-f.currentProcess().Died():
			return true
		case <-end.C:
			return false
		case <-look.C:
			s, err := f.Status(ctx)
			if err == nil && s.Wanted > 0 {
				err = f.supplySockets(ctx, s.Wanted) // the next look tries again
			}
			if err == nil && s.Refused {
				f.mu.Lock()
				f.address = "" // the forwarder is told again, and tries at once
				f.mu.Unlock()
				return false
			}
		}
	}
}

// sendRelayAddress tells the forwarder where the relay is, if that is new.
func (f *Forwarder) sendRelayAddress(ctx context.Context, address string) error {
	f.mu.Lock()
	known := f.address == address
	f.mu.Unlock()
	if known {
		return nil
	}
	err := f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error {
		return o.Begin(ctx, forward.Relay{Address: address, Ticket: f.note.Ticket, Clients: f.spec.Clients}, nil)
	})
	if err == nil {
		f.mu.Lock()
		f.address = address
		f.mu.Unlock()
	}
	return err
}

// restartProcess starts a forwarder after the death of the last.
func (f *Forwarder) restartProcess(ctx context.Context) error {
	if err := f.currentProcess().End(ctx); err != nil {
		return err
	}
	return f.startProcess(ctx, overlay.DivertRelisten)
}

// AwaitResumed waits until the relay has confirmed the connections of the checkpoint, or they are lost, and
// returns the lost connections. AwaitResumed gives up after a while: the relay may be away.
func (f *Forwarder) AwaitResumed(ctx context.Context) ([]forward.LostConnection, error) {
	ctx, cancel := context.WithTimeout(ctx, resumePatience)
	defer cancel()
	for {
		s, err := f.Status(ctx)
		if err != nil {
			return nil, err
		}
		waits := false
		for _, c := range s.Connections {
			waits = waits || c.Resumed
		}
		if !waits {
			var lost []forward.LostConnection
			for _, l := range s.Lost {
				if l.Resumed {
					lost = append(lost, l)
				}
			}
			return lost, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(resumeLook):
		}
	}
}
