// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Size is the size of the snapshot that Cluster makes.
type Size struct {
	Nodes int
	GPUs  int // of each node
	Jobs  int
	Fill  float64 // of the GPUs that running jobs hold, 0 to 1
	Seed  uint64
}

// Now is when every made snapshot was taken.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rules are those of every made snapshot.
var rules = sdk.Rules{
	Window: time.Hour, Promised: [sdk.Tiers]float64{sdk.Standard: 0.7, sdk.Premium: 0.95},
	MinRun: time.Minute, CoolDown: 5 * time.Minute,
}

// Cluster makes a snapshot as a busy cluster has them: jobs of all tiers and sizes, some with
// several nodes, some elastic, some that are no capsules, most of them running and the rest
// waiting. The same size gives the same snapshot.
func Cluster(size Size) *sdk.Snapshot {
	r := rand.New(rand.NewPCG(size.Seed, 1))
	s := &sdk.Snapshot{
		Cluster: "made", Number: 1, Time: Now,
		Rules:      rules,
		Partitions: []sdk.Partition{{Name: "gpu", Up: true, Priority: 1, MaxTime: 48 * time.Hour}},
		QOS:        []sdk.QOS{{Name: "basic"}, {Name: "premium", Priority: 1000, Tier: sdk.Premium}, {Name: "standard", Priority: 100, Tier: sdk.Standard}},
	}
	for i := range 50 {
		s.Accounts = append(s.Accounts, sdk.Account{Name: fmt.Sprintf("group%02d", i), Fraction: r.Float64()})
	}
	for i := range size.Nodes {
		s.Nodes = append(s.Nodes, newNode(r, i, size.GPUs))
	}
	f := filler{random: r, snapshot: s, left: int(size.Fill * float64(size.Nodes*size.GPUs))}
	for i := range size.Jobs {
		f.addJob(sdk.JobID(1000 + i + i/7))
	}
	return s
}

func newNode(r *rand.Rand, i, gpus int) sdk.Node {
	n := sdk.Node{
		Name: fmt.Sprintf("n%05d", i), Partitions: []string{"gpu"}, Features: []string{"ib"},
		CPUs: 16 * gpus, Memory: int64(128<<10) * int64(gpus), Watts: 500, GPUs: make([]sdk.GPU, gpus),
	}
	for g := range n.GPUs {
		n.GPUs[g] = sdk.GPU{Kind: "a100", Health: sdk.HealthGood, Use: r.Float32(), Watts: 100 + 300*r.Float32(), Limit: 400}
	}
	return n
}

// filler puts jobs on nodes, node by node.
type filler struct {
	random   *rand.Rand
	snapshot *sdk.Snapshot
	node     int // that is being filled
	used     int // GPUs of the node
	left     int // GPUs to fill
}

var sizes = []struct{ gpus, percent int }{{1, 60}, {2, 15}, {4, 12}, {8, 9}, {16, 3}, {32, 1}}

func (f *filler) addJob(id sdk.JobID) {
	j := f.newJob(id)
	if f.placeJob(&j) {
		j.State = sdk.Running
		j.Started = Now.Add(-time.Duration(f.random.IntN(7200)) * time.Second)
		j.Fraction = 1 - f.random.Float64()*0.4
		j.Counted = min(f.snapshot.Rules.Window, Now.Sub(j.Submitted))
		j.Checkpoint.At = Now.Add(-time.Duration(f.random.IntN(1800)) * time.Second)
	}
	f.snapshot.Jobs = append(f.snapshot.Jobs, j)
}

func (f *filler) newJob(id sdk.JobID) sdk.Job {
	r, s := f.random, f.snapshot
	gpus, dice := 1, r.IntN(100)
	for _, size := range sizes {
		if dice -= size.percent; dice < 0 {
			gpus = size.gpus
			break
		}
	}
	capsules := 1
	if per := len(s.Nodes[0].GPUs); gpus > per {
		capsules = (gpus + per - 1) / per
		gpus = capsules * per
	}
	qos := s.QOS[[]int{0, 0, 0, 0, 0, 2, 2, 2, 1, 0}[r.IntN(10)]]
	j := sdk.Job{
		ID: id, Label: fmt.Sprint(id), Name: fmt.Sprintf("train-%d", r.IntN(500)), User: fmt.Sprintf("user%03d", r.IntN(300)),
		Account: s.Accounts[r.IntN(len(s.Accounts))].Name, Partition: "gpu", QOS: qos.Name, Priority: qos.Priority + int64(r.IntN(50)),
		Tier: qos.Tier, Promised: s.Rules.Promised[qos.Tier], Fraction: 1,
		Preemptable: r.IntN(10) > 0,
		Tasks:       gpus, Capsules: capsules, CPUs: 8 * gpus / capsules, Memory: int64(64<<10) * int64(gpus/capsules), Kind: "a100",
		Request: gpus, GPUs: gpus, MinGPUs: gpus, MaxGPUs: gpus,
		Submitted: Now.Add(-time.Duration(7200+r.IntN(7200)) * time.Second), Limit: 24 * time.Hour,
		Checkpoint: sdk.Checkpoint{
			Bytes: int64(gpus) << 30, Dump: time.Duration(2000+r.IntN(20000)) * time.Millisecond,
			Restore: time.Duration(5000+r.IntN(30000)) * time.Millisecond, Measured: r.IntN(2) == 0,
		},
	}
	j.Eligible = j.Submitted
	if id%2 == 0 {
		j.PauseInPlace = time.Second
	}
	if !j.Preemptable {
		j.Obstacle = "it was submitted without --singularity"
	} else if gpus > capsules && r.IntN(3) == 0 {
		j.MinGPUs = capsules
		j.Fullest = newFullest(id, gpus/capsules)
	}
	return j
}

// newFullest makes the Fullest of a job with so many ranks in a capsule. Every third job has no such list.
func newFullest(id sdk.JobID, ranks int) []float64 {
	if id%3 == 0 {
		return nil
	}
	memory, alike := 0.1*float64(1+id%8), 0.25*float64(id%5)
	fullest := make([]float64, ranks)
	for i := range fullest {
		on := (ranks + i) / (i + 1)
		fullest[i] = memory * (alike + float64(on)*(1-alike))
	}
	return fullest
}

// placeJob gives the job its GPUs, or returns false when no more are to be filled.
func (f *filler) placeJob(j *sdk.Job) bool {
	if j.GPUs > f.left {
		return false
	}
	per := len(f.snapshot.Nodes[0].GPUs)
	each := j.GPUs / j.Capsules
	var shares []sdk.Share
	for range j.Capsules {
		if f.used+each > per {
			f.node, f.used = f.node+1, 0
		}
		if f.node >= len(f.snapshot.Nodes) {
			f.left = 0
			return false
		}
		set := sdk.GPUSet(1<<each-1) << f.used
		shares = append(shares, sdk.Share{Node: int32(f.node), Capsules: 1, GPUs: set, CPUs: int32(j.CPUs), Memory: j.Memory})
		f.used += each
	}
	j.Shares = slices.Clip(shares)
	f.left -= j.GPUs
	return true
}
