// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// resuming are the nodes that are told to go on.
type resuming chan string

// Call implements NodeCaller.
func (r resuming) Call(_ context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	if req.GetResume() != nil {
		r <- node
	}
	return &rpc.CallReply{}, nil
}

// TestFrozenTooLate: programs that are frozen after the end of their attempt are thawed again.
func TestFrozenTooLate(t *testing.T) {
	c := (&Conductor{Config: Config{Node: "n1"}, daemonCtx: t.Context()}).linkPartsToConductor()
	told := make(resuming, 9)
	c.Remote = told
	id := (&lab{}).checkpointID(3)
	j := (&job{c: c, id: 7, log: slog.New(slog.DiscardHandler), run: runs.NewRunAt(runs.Snapshot{Placement: records.Placement{FirstRun: []string{"n1", "n2"}, ThisRun: []string{"n1", "n2"}}})}).linkPartsToJob()
	nothing := func() error { return nil }
	if err := j.participant.freezeUnlessOver(id, func() error { t.Error("freezes without a membership"); return nil }); !errors.Is(err, errOtherAttempt) {
		t.Error(err)
	}
	m := &membership{id: id, done: make(chan struct{})}
	j.participant.now = m
	if err := j.participant.freezeUnlessOver(id, nothing); err != nil {
		t.Error(err)
	}
	newer := &membership{id: (&lab{}).checkpointID(4)}
	if err := j.participant.freezeUnlessOver(id, func() error { j.participant.now = newer; return nil }); err != nil {
		t.Error(err)
	}
	c.background.Wait()
	if len(told) != 0 {
		t.Errorf("%d nodes were told to resume, want none", len(told))
	}
	j.participant.now = m
	err := j.participant.freezeUnlessOver(id, func() error { return j.participant.resumeHere(t.Context(), id) })
	if !errors.Is(err, errOtherAttempt) {
		t.Error(err)
	}
	c.background.Wait() // until the capsules of this node are resumed: there are none
	if len(told) != 1 || <-told != "n2" {
		t.Error("the other node was not told to resume the job")
	}
}

// participantIn makes a job of the nodes n1 and n2 with a membership of n1, and notes which nodes are told to resume.
func participantIn(t *testing.T) (*participant, *membership, resuming) {
	c := (&Conductor{Config: Config{Node: "n1"}, daemonCtx: t.Context()}).linkPartsToConductor()
	told := make(resuming, 9)
	c.Remote = told
	where := records.Placement{FirstRun: []string{"n1", "n2"}, ThisRun: []string{"n1", "n2"}}
	j := (&job{c: c, id: 7, log: slog.New(slog.DiscardHandler), run: runs.NewRunAt(runs.Snapshot{Placement: where})}).linkPartsToJob()
	m := &membership{id: (&lab{}).checkpointID(3), done: make(chan struct{})}
	j.participant.now = m
	j.participant.mu.Lock()
	j.participant.armLeaderTimeout(m)
	j.participant.mu.Unlock()
	return &j.participant, m, told
}

// TestResumedDuringDump: a node that is told to resume while its dump goes on, because another node's dump has failed, ends the
// dump, and thaws its programs only when the dump is over: criu freezes them again at its end.
func TestResumedDuringDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := participantIn(t)
		ctx, _, end, err := p.beginDump(t.Context(), m)
		noError(t, err)
		resumed := make(chan error, 1)
		go func() { resumed <- p.resumeHere(t.Context(), m.id) }()
		<-ctx.Done()
		time.Sleep(dumpEndTimeout - time.Second)
		if isClosed(m.done) {
			t.Error("the programs were thawed during the dump")
		}
		end()
		noError(t, <-resumed)
		if !isClosed(m.done) {
			t.Error("the membership goes on")
		}
	})
}

// TestResumedBeforeDumpEnds: where a dump does not end in time, because the store does not answer, the programs are thawed
// nevertheless, and once more when the dump is over.
func TestResumedBeforeDumpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, told := participantIn(t)
		_, _, end, err := p.beginDump(t.Context(), m)
		noError(t, err)
		began := time.Now()
		noError(t, p.resumeHere(t.Context(), m.id))
		if took := time.Since(began); took != dumpEndTimeout || took >= finishDeadline {
			t.Errorf("thawed after %s", took)
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Error("thawed once more before the end of the dump")
		}
		end()
		p.j.c.background.Wait()
		if len(told) != 1 {
			t.Error("the program was not thawed once more after the dump")
		}
	})
}

// TestDumpAfterResume: a call to dump that comes after the end of the membership begins no dump.
func TestDumpAfterResume(t *testing.T) {
	p, m, _ := participantIn(t)
	noError(t, p.resumeHere(t.Context(), m.id))
	if _, _, _, err := p.beginDump(t.Context(), m); !errors.Is(err, errOtherAttempt) {
		t.Error(err)
	}
}
