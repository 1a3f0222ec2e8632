// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// TraceDescription describes the trace that Generate makes.
type TraceDescription struct {
	Jobs        int
	Nodes, GPUs int     // of the cluster that they are for, and of each node
	Load        float64 // work that comes in, over the cluster's capacity
	Seed        uint64
}

// sizes is how many jobs of a hundred ask for so many GPUs.
var sizes = []struct{ gpus, percent int }{{1, 52}, {2, 16}, {4, 14}, {8, 12}, {16, 4}, {32, 2}}

// Generate makes a trace as clusters for training have them: many small and short jobs, few large
// and long jobs, more by day than by night, half of the jobs that could be shrunk can be. The same
// TraceDescription gives the same trace.
func Generate(m TraceDescription) []Job {
	r := rand.New(rand.NewPCG(m.Seed, 0x7261636b))
	jobs := make([]Job, m.Jobs)
	total := 0.0 // GPU-seconds
	for i := range jobs {
		jobs[i] = drawJob(r, m)
		jobs[i].ID = sdk.JobID(i + 1)
		total += jobs[i].Duration.Seconds() * float64(jobs[i].GPUs)
	}
	mean := total / (m.Load * float64(m.Nodes*m.GPUs)) / float64(m.Jobs) // seconds from a job to the next
	at := 0.0
	for i := range jobs {
		jobs[i].Submit = time.Duration(1000*at) * time.Millisecond
		day := 1 + 0.4*math.Sin(2*math.Pi*at/86400)
		at += r.ExpFloat64() * mean / day
	}
	return jobs
}

// drawJob makes a job, except its id and its time of submission.
func drawJob(r *rand.Rand, m TraceDescription) Job {
	gpus, dice := 1, r.IntN(100)
	for _, s := range sizes {
		if dice -= s.percent; dice < 0 {
			gpus = s.gpus
			break
		}
	}
	gpus = min(gpus, m.Nodes*m.GPUs)
	nodes := (gpus + m.GPUs - 1) / m.GPUs
	gpus -= gpus % nodes
	// The middle job takes 40 minutes, larger jobs more.
	minutes := math.Exp(math.Log(40)+1.2*r.NormFloat64()) * math.Sqrt(float64(nodes))
	duration := time.Duration(math.Ceil(60*min(max(minutes, 0.5), 48*60))) * time.Second
	j := Job{
		Duration: duration, GPUs: gpus, Nodes: nodes, MinGPUs: gpus, MaxGPUs: gpus,
		QOS:     []string{"premium", "standard", "standard", "basic", "basic", "basic", "basic"}[r.IntN(7)],
		User:    fmt.Sprintf("user%03d", r.IntN(400)),
		Account: fmt.Sprintf("group%02d", r.IntN(40)),
		Limit:   time.Duration(math.Ceil(duration.Hours()*(1.1+2*r.Float64()))) * time.Hour, // as people guess
		Rigid:   r.IntN(20) == 0,
	}
	if !j.Rigid && r.IntN(2) == 0 {
		j.MinGPUs = max(nodes, gpus/4)
		j.MinGPUs -= j.MinGPUs % nodes
	}
	return j
}
