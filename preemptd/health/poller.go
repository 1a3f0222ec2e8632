// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// Poller asks the nodes' proxyds. All fields must be set. Report may be called at any time, also concurrently.
type Poller struct {
	Nodes func() []Node // that Slurm knows now; the poller does not change the result
	Ask   func(ctx context.Context, node Node) (*rpc.PingReply, error)
	Log   *slog.Logger

	mu       sync.Mutex
	schedule schedule
}

// askWithin is how long a node may take to answer.
const askWithin = 5 * time.Second

// Run asks until ctx ends, and returns when no question is under way any more. Run is called once.
func (p *Poller) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for _, q := range p.dueQuestions() {
			all.Go(func() { p.pollNode(ctx, q) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Poller) dueQuestions() []question {
	nodes, now := p.Nodes(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.setNodes(nodes, now)
	return p.schedule.dueQuestions(now)
}

func (p *Poller) pollNode(ctx context.Context, q question) {
	asking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	reply, err := p.Ask(asking, q.Node)
	if ctx.Err() != nil { // this preemptd ends: the error says nothing about the node
		return
	}
	p.mu.Lock()
	before, after := p.schedule.noteResult(q, reply, err, time.Now())
	p.mu.Unlock()
	switch {
	case !after.Answers && (before.Asked.IsZero() || before.Answers):
		p.Log.Warn("proxyd does not answer", "node", q.Name, "error", err)
	case after.Answers && !before.Asked.IsZero() && !before.Answers:
		p.Log.Info("proxyd answers again", "node", q.Name, "after", after.Since.Sub(before.Since).Round(time.Second))
	}
}
