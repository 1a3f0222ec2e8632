// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// How often a restore looks for its checkpoint in the store, and asks the nodes for their progress.
const (
	uploadPollInterval = 300 * time.Millisecond
	shareAskInterval   = 2 * time.Second
)

// AwaitStoredOrLost waits until the newest checkpoint of a job is in the store, if it is being uploaded. It returns the
// record of an upload that is lost. patience bounds the wait for nodes that do not answer; 0: no bound.
func (u *Uploads) AwaitStoredOrLost(ctx context.Context, job uint32, submitted string, patience time.Duration, tell func(*Record, *Watch)) (*Record, error) {
	w := Watch{patience: patience}
	var asked time.Time
	for {
		up, err := u.folder.loadRecord(job)
		if err != nil || up == nil || up.Submitted != submitted {
			return nil, err
		}
		if asked.IsZero() || up.Lost != "" {
			if there, err := u.IsInStore(ctx, up); err != nil || there {
				return nil, err
			}
		}
		if up.Lost != "" {
			return up, nil
		}
		if time.Since(asked) >= shareAskInterval {
			asked = time.Now()
			why := w.lossReason(asked, u.askShareStatus(ctx, up))
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if why != "" {
				if err := u.markUploadLost(ctx, up, why); err != nil {
					return nil, err
				}
				continue // The checkpoint may have been committed at this very moment.
			}
			tell(up, &w)
		}
		if !waits.SleepUnlessDone(ctx, uploadPollInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

// IsInStore tells whether the store has a checkpoint at least as new as up. For an upload marked
// as lost, the answer no is final: record.go explains the order.
func (u *Uploads) IsInStore(ctx context.Context, up *Record) (bool, error) {
	if up.Lost != "" {
		if err := u.Store.Fence(ctx, u.idOf(up)); err != nil {
			return false, err
		}
	}
	id := store.PlainJob(u.Cluster, up.Job)
	all, err := u.Store.List(ctx, &id)
	for _, s := range all {
		if s.ID.Number >= up.Number {
			return true, err
		}
	}
	return false, err
}

// nodeStatus is the answer of a node about its share.
type nodeStatus struct {
	node  string
	reply ShareStatus
	err   error
}

// shareAskTimeout bounds the question to one node.
const shareAskTimeout = 5 * time.Second

func (u *Uploads) askShareStatus(ctx context.Context, up *Record) []nodeStatus {
	all := make([]nodeStatus, len(up.Nodes))
	var wg sync.WaitGroup
	for i, node := range up.Nodes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, shareAskTimeout)
			defer cancel()
			s := nodeStatus{node: node}
			s.reply, s.err = u.Conductor.ShareStatus(ctx, node, u.idOf(up))
			all[i] = s
		})
	}
	wg.Wait()
	return all
}

// Watch decides when an upload counts as lost. It has no clock of its own.
type Watch struct {
	patience time.Duration // with a node that does not answer; 0: no bound

	unreachableSince map[string]time.Time // by node
	Done, Total      int64                // bytes
	lastError        string               // of the last try, or ""
}

// lossReason returns why the upload counts as lost, or "". A missing share is lost at once. A node that does not answer
// has time to come back, as a killed daemon or a booting node does. While all nodes have their shares, the checkpoint
// is not lost, even if the store is full or unreachable for long.
func (w *Watch) lossReason(now time.Time, sights []nodeStatus) string {
	away := map[string]time.Time{}
	w.Done, w.Total, w.lastError = 0, 0, ""
	for _, s := range sights {
		if s.err != nil {
			since, known := w.unreachableSince[s.node]
			if !known {
				since = now
			}
			away[s.node] = since
			w.lastError = s.err.Error()
			if w.patience > 0 && now.Sub(since) > w.patience {
				return fmt.Sprintf("node %s, which has a part of it, does not answer: %v", s.node, s.err)
			}
			continue
		}
		if !s.reply.Has {
			return fmt.Sprintf("node %s has its part of it no more", s.node)
		}
		w.Done += s.reply.Done
		w.Total += s.reply.Total
		if s.reply.LastError != "" {
			w.lastError = s.reply.LastError
		}
	}
	w.unreachableSince = away
	return ""
}

// Describe names, for the job's comment, the checkpoint that a restore waits for.
func (w *Watch) Describe(up *Record) string {
	text := fmt.Sprintf("waits for checkpoint %d, which is on its way to the store from %s", up.Number, strings.Join(up.Nodes, ","))
	if w.Total > 0 {
		text += fmt.Sprintf(" (%d%%)", 100*w.Done/w.Total)
	}
	if w.lastError != "" {
		text += ": " + w.lastError
	}
	return text
}
