// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/api"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// site is a page with the real api and a real journal, and a slurmrestd. The tests
// are the loop.
type site struct {
	*testing.T
	srv     *slurmresttest.Server
	journal *journal.Journal
	keys    *web.Keys
	page    *web.Server
	address string
	stop    func()
	last    *sdk.Snapshot // that tellSnapshot has told

	mu  sync.Mutex
	now web.State
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, srv: slurmresttest.Start(t, slurmresttest.Options{}), keys: web.NewKeys()}
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), "mini")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	kept := make(chan struct{})
	keeping, stop := context.WithCancel(context.Background())
	go func() { defer close(kept); j.Keep(keeping, nil) }()
	t.Cleanup(func() { stop(); <-kept })
	s.journal = j
	slurm := s.srv.Client(t)
	requests := api.New(api.Options{
		Version: "1.0", Cluster: "mini", Journal: j, Slurm: slurm, Wake: func() {},
		State: func() api.State { return api.State{Problems: []string{"a problem"}} },
	})
	s.now = web.State{
		Role: web.Works, Cluster: "mini", Interval: time.Second, Journal: j, Requests: requests,
		Slurm: func(ctx context.Context) error { _, err := slurm.Ping(ctx); return err },
		Policies: func() []*rpc.Policy {
			return []*rpc.Policy{{Name: "drain", Running: true}, {Name: "tiers", Running: true}}
		},
		Useful: func() []gputime.Day {
			return []gputime.Day{{
				Date: "2026-11-23", Tiers: [sdk.Tiers]gputime.Time{sdk.Basic: {Held: 7200, Lost: 720}}, Users: map[string]gputime.Time{"<b>alice": {Held: 7200, Lost: 720}},
			}}
		},
	}
	s.now.Checkpoints = func(label string) []web.Checkpoint {
		if label != "3" {
			return nil
		}
		made := time.Now().Add(-time.Hour)
		return []web.Checkpoint{
			{Number: 1, Made: made, Took: 12 * time.Second, Captured: 5 << 30, Stored: 3 << 29, Reason: "interval", Nodes: []string{"gpu00003", "gpu00004"}},
			{Number: 2, Made: made.Add(time.Minute), Took: 4 * time.Second, Captured: 5 << 30, Stored: 1 << 20, Reason: hostile, Nodes: []string{"gpu00003"}, Uploading: true},
		}
	}
	s.now.Obstacles = func(_ context.Context, job int64) ([]web.Obstacle, error) {
		if job != 1 {
			return nil, fmt.Errorf("no proxyd is asked about job %d", job)
		}
		return []web.Obstacle{{Where: "batch, gpu00001, process 7", What: "a connection to 192.0.2.7:443", Cure: "close it", Since: time.Now()}}, nil
	}
	s.page = web.New(web.Options{Version: "1.0", Keys: s.keys, State: s.readState, Racks: someRacks()})
	s.servePage("127.0.0.1:0")
	return s
}

// servePage has the page listen; stop ends that.
func (s *site) servePage(address string) {
	s.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	s.address = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.page.Serve(ctx, l, nil) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(s.stop)
}

func (s *site) readState() web.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) changeState(change func(*web.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.now)
}

// hostile is a name that a user could give a job.
const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// newSnapshot is a cluster of nodes with 8 GPUs each, filled with jobs of all tiers, as of tick
// number at a time.
func newSnapshot(nodes int, number uint64, at time.Time) *sdk.Snapshot {
	s := &sdk.Snapshot{
		Cluster: "mini", Number: number, Time: at,
		Rules: sdk.Rules{Window: 24 * time.Hour, Promised: [sdk.Tiers]float64{sdk.Premium: .95, sdk.Standard: .7}},
	}
	for i := range nodes {
		n := sdk.Node{Name: fmt.Sprintf("gpu%05d", i+1), GPUs: make([]sdk.GPU, 8), Partitions: []string{"main"}}
		if i%48 >= 40 {
			n.Partitions = []string{"main", "long"}
		}
		for g := range n.GPUs {
			n.GPUs[g].Kind = "a100"
		}
		switch i % 16 {
		case 11:
			n.State, n.Reason = sdk.NodeDraining, "new firmware"
		case 14:
			n.State, n.Reason = sdk.NodeDown, "not responding"
		}
		if i%16 == 5 {
			n.GPUs[6].Health = sdk.HealthBad
		}
		s.Nodes = append(s.Nodes, n)
	}
	names := []string{"llama-70b-sft", "resnet50", "whisper-large", hostile, "diffusion-xl", "graphcast", "protein-fold", "t5-sweep"}
	users := []string{"alice", "bob", "carol", "dmitri", "nobody"}
	tiers := []sdk.Tier{sdk.Premium, sdk.Basic, sdk.Standard, sdk.Standard, sdk.Premium, sdk.Basic, sdk.Basic}
	next := 0
	for place := 0; place < nodes; {
		if s.Nodes[place].State == sdk.NodeDown || place%16 == 9 {
			place++
			continue
		}
		wide := 1 + next%3
		j := sdk.Job{Name: names[next%len(names)], User: users[next%len(users)], Tier: tiers[next%len(tiers)], State: sdk.Running, Preemptable: true}
		for ; wide > 0 && place < nodes && s.Nodes[place].State != sdk.NodeDown; wide-- {
			gpus := sdk.GPUSet(0xff)
			if s.Nodes[place].State == sdk.NodeDraining || next%5 == 4 {
				gpus = 0x0f
			}
			j.Shares = append(j.Shares, sdk.Share{Node: int32(place), GPUs: gpus, Capsules: 1})
			j.GPUs += gpus.Count()
			place++
		}
		j.Request, j.Capsules, j.Counted = j.GPUs, len(j.Shares), 5*time.Hour
		j.Fraction = []float64{.991, .42, .83, .66, .97, .58}[next%6]
		j.Started = at.Add(-time.Duration(20+37*(next%9)) * time.Minute)
		s.Jobs = append(s.Jobs, fillNode(s, j, next))
		next++
	}
	for i := range 6 {
		j := sdk.Job{Name: names[i], User: users[i%len(users)], Tier: tiers[i], State: []sdk.JobState{sdk.Waiting, sdk.Waiting, sdk.Held}[i%3], GPUs: 16, Request: 16, Capsules: 2, Fraction: 1}
		j.Eligible = at.Add(-time.Duration(3+11*i) * time.Minute)
		s.Jobs = append(s.Jobs, fillNode(s, j, next))
		next++
	}
	return s
}

func fillNode(s *sdk.Snapshot, j sdk.Job, n int) sdk.Job {
	j.ID, j.Label = sdk.JobID(n+1), fmt.Sprint(n+1)
	j.Submitted, j.Promised, j.Account, j.QOS = s.Time.Add(-7*time.Hour), s.Rules.Promised[j.Tier], "lab", j.Tier.String()
	return j
}

// someTicks has the page see the cluster's last hours: jobs start, stand still, shrink.
func (s *site) someTicks(nodes int) *sdk.Snapshot {
	const ticks = 24
	now := time.Now()
	var last *sdk.Snapshot
	for i := range ticks + 1 {
		at := now.Add(-time.Duration(ticks-i) * 15 * time.Minute)
		last = newSnapshot(nodes, uint64(i+1), at)
		for n := range last.Jobs {
			j := &last.Jobs[n]
			if j.State != sdk.Running {
				continue
			}
			j.Started = now.Add(-6*time.Hour + time.Duration(n%7)*17*time.Minute)
			switch phase := (i + 3*n) % 13; {
			case i == ticks || n%4 == 3:
			case phase == 7 && j.Tier != sdk.Premium:
				j.State = sdk.Leaving
			case (phase == 8 || phase == 9) && j.Tier != sdk.Premium:
				j.State, j.Shares, j.Eligible = sdk.Waiting, nil, at
			case phase > 10 && j.Tier == sdk.Basic:
				j.GPUs /= 2
			}
		}
		s.page.Tell(web.Tick{Snapshot: last})
	}
	return last
}

// addJob adds a job of the page to Slurm too.
func (s *site) addJob(uid int64) int64 {
	id := s.srv.AddJob(slurmrest.Job{UserID: uid, Batch: true, Requeueable: true, NodeCount: slurmrest.Num(1), TRESPerNode: "gres/gpu:a100:8"})
	s.srv.StartJob(id, "gpu00001")
	return id
}
