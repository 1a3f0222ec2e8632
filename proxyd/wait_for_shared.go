// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// errStopping is returned to requests that waited for the shared folder when the daemon was stopped.
var errStopping = errors.New("proxyd is stopping")

// conductorWait stands between Slurm's side of the node and the conductor: requests wait until there is a conductor. A
// conductor needs the shared folder and the store. Without a conductorWait, tasks of a node would find no proxyd, and
// fail, while the shared folder or the store is away. All methods may be called concurrently.
type conductorWait struct {
	opened  chan struct{} // closed by open
	away    chan struct{} // closed by setReason
	stopped <-chan struct{}
	// tell writes the reason for which a job waits into the job's comment; nil: it waits no longer.
	tell func(job uint32, why error)

	conductor nodesocket.Conductor
	sruns     nodesocket.SrunRequests

	mu  sync.Mutex
	why error // of the last setReason
}

func newConductorWait(stopped <-chan struct{}, tell func(job uint32, why error)) *conductorWait {
	return &conductorWait{opened: make(chan struct{}), away: make(chan struct{}), stopped: stopped, tell: tell}
}

// open passes on the requests that wait, and all later requests. open is called once.
func (w *conductorWait) open(c nodesocket.Conductor, sruns nodesocket.SrunRequests) {
	w.conductor, w.sruns = c, sruns
	close(w.opened)
}

// setReason says why there is no conductor yet.
func (w *conductorWait) setReason(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		close(w.away)
	}
	w.why = why
}

// awayReason returns the reason of the last setReason; nil before the first call.
func (w *conductorWait) awayReason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// isOpen tells whether there is a conductor. Fields of the node that were set before open may be
// used then.
func (w *conductorWait) isOpen() bool {
	select {
	case <-w.opened:
		return true
	default:
		return false
	}
}

// awaitConductor returns nil when there is a conductor.
func (w *conductorWait) awaitConductor(ctx context.Context) error {
	select {
	case <-w.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.stopped:
		return errStopping
	}
}

// errEndedWhileAway is the error for a task that Slurm ends while it waits for the shared folder.
var errEndedWhileAway = errors.New("the task was ended while it waited for the shared folder")

// Join implements nodesocket.Conductor. The job's comment has the reason for which the task waits.
func (w *conductorWait) Join(ctx context.Context, t nodesocket.Join) (nodesocket.Admission, error) {
	select {
	case <-w.away:
		if !w.isOpen() {
			w.tell(t.Job, w.awayReason())
			select {
			case <-t.Terminated:
				return nodesocket.Admission{}, errEndedWhileAway
			case <-w.opened:
				w.tell(t.Job, nil)
			case <-ctx.Done():
			case <-w.stopped:
			}
		}
	case <-w.opened:
	case <-ctx.Done():
	case <-w.stopped:
	}
	if err := w.awaitConductor(ctx); err != nil {
		return nodesocket.Admission{}, err
	}
	return w.conductor.Join(ctx, t)
}

// End implements nodesocket.Conductor. An epilog does not wait for a folder that is away: later, the conductor
// removes the remains of jobs that are over.
func (w *conductorWait) End(ctx context.Context, job uint32) error {
	select {
	case <-w.opened:
	case <-w.away:
		if !w.isOpen() {
			return w.awayReason()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.stopped:
		return errStopping
	}
	return w.conductor.End(ctx, job)
}

// Admit implements nodesocket.SrunRequests, as all below.
func (w *conductorWait) Admit(who nodesocket.Peer) error {
	if err := w.awaitConductor(context.Background()); err != nil {
		return err
	}
	return w.sruns.Admit(who)
}

func (w *conductorWait) Srun(ctx context.Context, who nodesocket.Peer, key string, give func(to *os.File) error) {
	if w.awaitConductor(ctx) == nil {
		w.sruns.Srun(ctx, who, key, give)
	}
}

func (w *conductorWait) TellFailure(ctx context.Context, dir string) bool {
	return w.awaitConductor(ctx) == nil && w.sruns.TellFailure(ctx, dir)
}

func (w *conductorWait) TellMessage(ctx context.Context, dir string) bool {
	return w.awaitConductor(ctx) == nil && w.sruns.TellMessage(ctx, dir)
}

func (w *conductorWait) Signal(ctx context.Context, who nodesocket.Peer, key string, sig syscall.Signal) error {
	if err := w.awaitConductor(ctx); err != nil {
		return err
	}
	return w.sruns.Signal(ctx, who, key, sig)
}

func (w *conductorWait) NoteRequeue(ctx context.Context, who nodesocket.Peer) error {
	if err := w.awaitConductor(ctx); err != nil {
		return err
	}
	return w.sruns.NoteRequeue(ctx, who)
}

// serveNode answers the tasks, sruns and epilogs of this node through the conductorWait, until ctx is done.
func (n *node) serveNode(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	n.conductorWait = newConductorWait(ctx.Done(), func(job uint32, why error) { n.commentSharedWait(ctx, job, why) })
	sockets, err := nodesocket.Listen(n.cfg.RunDir, version, n.conductorWait, n.conductorWait, n.log)
	if err != nil {
		cancel()
		return nil, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		sockets.Serve(ctx)
	}()
	n.sockets = func() { cancel(); <-served }
	return n.sockets, nil
}

// commentSharedWait writes into a job's comment why the job waits for the shared folder, or, without a reason, removes
// that.
func (n *node) commentSharedWait(ctx context.Context, job uint32, why error) {
	comments := reports.Comments{Slurm: slurm.New(n.cfg.Scontrol)}
	var err error
	if why != nil {
		n.log.Error("a task waits for the shared folder", "job", job, "error", why)
		err = comments.Write(ctx, slurm.JobName(job), reports.SharedWait+why.Error())
	} else {
		err = comments.EndWait(ctx, slurm.JobName(job))
	}
	if err != nil {
		n.log.Info("cannot write the job's comment", "job", job, "error", err)
	}
}
