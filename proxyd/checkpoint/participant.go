// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// membership is the part of this node in an attempt.
type membership struct {
	id                store.ID
	release           bool
	leaderWriter      upload.ShareWriter // on the leader: its attempt commits or aborts the writer
	ownWriter         upload.ShareWriter // on another node
	stageRoom         *stage.Room        // reserved in this node's stage
	stopLeaderTimeout func() bool        // stops the timer that ends the membership when the leader is silent
	dumping           bool               // no leader timeout: a dump takes as long as it needs
	cancelDump        context.CancelFunc // ends this node's dump; nil: none has begun
	dumpOver          chan struct{}      // closed when this node's dump is over

	done         chan struct{} // closed when the capsules run again, or are gone
	capsulesGone bool          // the capsules are gone; set before done is closed
}

// awaitEnd returns when the membership is over.
func (m *membership) awaitEnd(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beginDump begins this node's dump, unless the membership m has ended. The dump's context ends with the membership,
// and w is the leader's writer; nil on another node. The caller calls end when no part of the dump works on the
// capsules any more.
func (p *participant) beginDump(ctx context.Context, m *membership) (dumpCtx context.Context, w upload.ShareWriter, end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != m {
		return nil, nil, nil, errOtherAttempt
	}
	dumpCtx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	m.cancelDump, m.dumpOver = cancel, over
	m.stopLeaderTimeout() // the end of the leader's call ends the dump
	m.dumping = true
	return dumpCtx, m.leaderWriter, func() {
		cancel()
		close(over)
		p.mu.Lock()
		defer p.mu.Unlock()
		m.dumping = false
		if p.now == m {
			p.armLeaderTimeout(m)
		}
	}, nil
}

// dumpEndTimeout bounds the wait for the end of a dump. It is longer than criu takes to leave its processes, and shorter than
// finishDeadline.
const dumpEndTimeout = 25 * time.Second

// endDump ends this node's dump of a membership that is over, and waits until the dump is over: a criu that ends has thawed the
// programs, and freezes them again at its end. Where that takes too long, because the store does not answer, the programs are
// thawed once more later.
func (p *participant) endDump(ctx context.Context, m *membership) error {
	p.mu.Lock()
	w, cancel, over := m.ownWriter, m.cancelDump, m.dumpOver
	p.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	var err error
	if w != nil { // writes that wait for the store fail
		err = w.Abort(ctx)
	}
	timeout := time.NewTimer(dumpEndTimeout)
	defer timeout.Stop()
	select {
	case <-over:
		return err
	case <-timeout.C:
	case <-ctx.Done():
	}
	p.j.log.Warn("the dump does not end", "checkpoint", m.id)
	p.j.c.startBackground(func(ctx context.Context) {
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
		if p.currentMembership() == nil { // a newer attempt thaws the programs at its own end
			p.resolveOrphaned(ctx, m.id, false)
		}
	})
	return err
}

// releaseStageRoom releases the room of reserveStage. A second call is harmless.
func (m *membership) releaseStageRoom() {
	if m.stageRoom != nil {
		m.stageRoom.Release()
	}
}

// participant is this node's part in the checkpoints of a job, whichever node leads them.
// All methods may be called concurrently. Its lock is taken before job.mu.
type participant struct {
	j *job

	mu  sync.Mutex
	now *membership // nil: no checkpoint is in progress here
}

// currentMembership returns this node's membership; nil if there is none.
func (p *participant) currentMembership() *membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// membershipIn returns this node's membership in the attempt id, or errOtherAttempt.
func (p *participant) membershipIn(id store.ID) (*membership, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || p.now.id != id {
		return nil, errOtherAttempt
	}
	return p.now, nil
}

// joinAttempt makes this node a member of the attempt id, if this node has capsules. The result is the membership in
// another attempt, if that is in progress; then joinAttempt has no effect.
func (p *participant) joinAttempt(id store.ID, release bool) (other *membership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return p.now
	}
	if len(p.j.localCapsules()) > 0 {
		p.now = &membership{id: id, release: release, done: make(chan struct{})}
		p.armLeaderTimeout(p.now)
	}
	return nil
}

// leaveAttempt ends and returns the membership in the attempt id; nil if there is none. The caller
// closes done when the capsules run again, or are gone.
func (p *participant) leaveAttempt(id store.ID, capsulesGone bool) *membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.now
	if m == nil || m.id != id {
		return nil
	}
	p.now = nil
	if m.stopLeaderTimeout != nil {
		m.stopLeaderTimeout()
	}
	m.capsulesGone = capsulesGone
	return m
}

// runUnlessMember calls do unless a checkpoint is in progress here. No checkpoint begins while do runs: it would miss a
// part of the changes that do makes. The result is the membership in a checkpoint in progress.
func (p *participant) runUnlessMember(do func()) *membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		do()
	}
	return p.now
}

// setLeaderWriter notes the writer of the leader's own share.
func (p *participant) setLeaderWriter(id store.ID, w upload.ShareWriter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && p.now.id == id {
		p.now.leaderWriter = w
	}
}

// restartLeaderTimeout restarts the leader timeout: the leader of the attempt id is alive. The result is false
// if this node is no member. During a dump, the end of the leader's call ends the membership.
func (p *participant) restartLeaderTimeout(id store.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || p.now.id != id {
		return false
	}
	if !p.now.dumping {
		p.armLeaderTimeout(p.now)
	}
	return true
}

// armLeaderTimeout restarts the timer that ends the membership when the leader is silent. Caller
// holds p.mu.
func (p *participant) armLeaderTimeout(m *membership) {
	j := p.j
	if m.stopLeaderTimeout != nil {
		m.stopLeaderTimeout()
	}
	ctx, cancel := context.WithTimeout(j.c.daemonCtx, leaderTimeout)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			j.log.Warn("no call from the leader in time", "checkpoint", m.id)
			p.resolveOrphaned(context.WithoutCancel(ctx), m.id, m.release)
		}
	})
	m.stopLeaderTimeout = func() bool { defer cancel(); return stop() }
}
