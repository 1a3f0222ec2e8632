// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"sync"

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

// joinAttempt makes this node a member of the attempt id, if this node has capsules. The result is the membership
// in another attempt, if that is in progress; then nothing changes.
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

// unlessMember calls do unless a checkpoint is in progress here. None begins while do runs: that
// checkpoint would miss a part of what do notes. The result is the membership in a checkpoint in progress.
func (p *participant) unlessMember(do func()) *membership {
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

// hearLeader restarts the leader timeout: the leader of the attempt id is alive. The result is false
// if this node is no member. During a dump, the end of the leader's call ends the membership.
func (p *participant) hearLeader(id store.ID) bool {
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
