// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Slurm is the part of a client of Slurm that a Watch uses. *slurmrest.Client implements it.
type Slurm interface {
	Cluster(ctx context.Context) (slurmrest.ClusterInfo, error)
	EachJob(ctx context.Context, since time.Time, yield func(*slurmrest.Job) error) (slurmrest.ListInfo, error)
	Nodes(ctx context.Context) ([]slurmrest.Node, error)
	Partitions(ctx context.Context) ([]slurmrest.Partition, error)
	QOS(ctx context.Context) ([]slurmrest.QOS, error)
	Reservations(ctx context.Context) ([]slurmrest.Reservation, error)
}

// Proxyd is the part of a client of proxyd that a Watch uses.
type Proxyd interface {
	// Show tells of a running job. The error is rpc.ErrNotProtected if the job has no capsule.
	Show(ctx context.Context, job *slurmrest.Job) (*rpc.Job, error)
	// AllCheckpoints lists the checkpoints of all jobs, asking any of the nodes.
	AllCheckpoints(ctx context.Context, nodes []slurmrest.Node) ([]*rpc.Checkpoint, error)
}

// Observation is the result of a look.
type Observation struct {
	Time         time.Time
	Cluster      string
	Jobs         []slurmrest.Job // by id
	Nodes        []slurmrest.Node
	Partitions   []slurmrest.Partition
	QOS          []slurmrest.QOS
	Reservations []slurmrest.Reservation
	Protected    map[int64]Protection         // of jobs that run or have run, as far as known
	Checkpoints  map[string][]*rpc.Checkpoint // by the job's label, oldest first
}

// Protection says whether a run of a job can be checkpointed. While the job waits, it is the Protection of the newest run.
type Protection struct {
	Restarts int64 // the run of which this was found out
	Is       bool
	Obstacle string // why not
	GPUs     string // that the user lets the job be shrunk and grown to: "MIN" or "MIN-MAX"; empty: not said
	Software bool   // its GPUs are software GPUs, of which other jobs of its user can lend it more
	Lends    int64  // of a lease that has begun: the job to which it lends its GPUs; 0: it is no lease
	early    bool   // the job had just begun: it may be protected yet, or begin to lend its GPUs
}

// LedRun is a run of a job as the node that leads it has looked at it last.
type LedRun struct {
	Restarts int64  // the run
	Obstacle string // a part of the job that cannot be captured; "": there is no such part
}

// Watch looks at a cluster, again and again. A Watch is used by a single goroutine.
type Watch struct {
	Slurm  Slurm
	Proxyd Proxyd
	// Led returns the running jobs that nodes lead, by id, as these nodes have looked at them last; nil: not known.
	Led func() map[int64]LedRun
	// Rarely is how often lists that seldom change are asked for; default 30 s.
	Rarely time.Duration
	Now    func() time.Time // nil: time.Now

	seen  Observation
	since time.Time // of the list of jobs
	rare  time.Time // when the lists that seldom change were asked for
}

// perLook bounds how many jobs proxyd is asked about in a look: after a start, all jobs are new.
const perLook = 64

// ProxydError is a look at which proxyd did not answer. The Observation is whole but for proxyd's part.
type ProxydError struct{ Err error }

func (e *ProxydError) Error() string { return "proxyd: " + e.Err.Error() }

// Unwrap returns the client's error.
func (e *ProxydError) Unwrap() error { return e.Err }

// Look looks once. The returned Observation is not changed any more. An error says that Slurm did not answer, and
// the Observation is empty, unless it is a *ProxydError.
func (w *Watch) Look(ctx context.Context) (Observation, error) {
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	at := now()
	if err := w.refreshJobsAndNodes(ctx); err != nil {
		return Observation{}, err
	}
	rarely := w.Rarely
	if rarely == 0 {
		rarely = 30 * time.Second
	}
	var away error
	if w.rare.IsZero() || at.Sub(w.rare) >= rarely {
		if err := w.refreshConfiguration(ctx); err != nil {
			return Observation{}, err
		}
		away = w.refreshCheckpoints(ctx)
		w.rare = at
	}
	if err := w.refreshProtections(ctx, at); err != nil {
		away = err
	}
	if ctx.Err() != nil {
		return Observation{}, ctx.Err()
	}
	w.seen.Time = at
	if away != nil {
		return w.seen, &ProxydError{away}
	}
	return w.seen, nil
}

// refreshJobsAndNodes asks for the parts that change all the time. Slices are made anew, never changed.
func (w *Watch) refreshJobsAndNodes(ctx context.Context) error {
	var jobs []slurmrest.Job
	info, err := w.Slurm.EachJob(ctx, w.since, func(j *slurmrest.Job) error {
		jobs = append(jobs, *j)
		return nil
	})
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if info.Changed {
		w.seen.Jobs = jobs
	}
	w.since = info.Next
	if w.seen.Nodes, err = w.Slurm.Nodes(ctx); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	return nil
}

// refreshConfiguration asks for the name of the cluster, partitions, reservations and QOS, which change rarely.
func (w *Watch) refreshConfiguration(ctx context.Context) error {
	info, err := w.Slurm.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	w.seen.Cluster = info.Name
	if w.seen.Partitions, err = w.Slurm.Partitions(ctx); err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	if w.seen.Reservations, err = w.Slurm.Reservations(ctx); err != nil {
		return fmt.Errorf("reservations: %w", err)
	}
	qos, err := w.Slurm.QOS(ctx)
	if errors.Is(err, slurmrest.ErrDatabase) && w.seen.QOS != nil {
		return nil // slurmdbd is away: Slurm goes on without slurmdbd, and so does preemptd
	}
	if err != nil {
		return fmt.Errorf("qos: %w", err)
	}
	w.seen.QOS = qos
	return nil
}

func (w *Watch) refreshCheckpoints(ctx context.Context) error {
	all, err := w.Proxyd.AllCheckpoints(ctx, w.seen.Nodes)
	if err != nil {
		return err
	}
	by := map[string][]*rpc.Checkpoint{}
	for _, c := range all {
		by[c.GetJob()] = append(by[c.GetJob()], c)
	}
	w.seen.Checkpoints = by
	return nil
}

// refreshProtections asks about the runs that have begun since the last look, and then again about
// runs that had no capsule when they had just begun: Slurm calls a job running before its nodes
// have made a capsule.
func (w *Watch) refreshProtections(ctx context.Context, at time.Time) error {
	known := make(map[int64]Protection, len(w.seen.Protected))
	var led map[int64]LedRun
	if w.Led != nil {
		led = w.Led()
	}
	var fresh, early []*slurmrest.Job
	for i := range w.seen.Jobs {
		j := &w.seen.Jobs[i]
		p, ok := w.seen.Protected[j.ID]
		if ok {
			known[j.ID] = p // until the node of a new run answers
		}
		ok = ok && p.Restarts == j.Restarts
		switch {
		case j.State.Base != slurmrest.Running || j.State.Flags != 0 || !j.Batch:
		case !ok:
			fresh = append(fresh, j)
		case p.early, !p.Is && p.Lends == 0 && isLed(led, j):
			early = append(early, j)
		}
	}
	var away error
	all := slices.Concat(fresh, early)
	for _, j := range all[:min(perLook, len(all))] {
		p, err := w.fetchProtection(ctx, j, at)
		if err != nil { // asked again at the next look
			away = err
			break
		}
		known[j.ID] = p
	}
	updateObstacles(known, led)
	w.seen.Protected = known
	return away
}

// isLed reports whether a node leads the run of a job: then the run has capsules, however long these took.
func isLed(led map[int64]LedRun, j *slurmrest.Job) bool {
	l, ok := led[j.ID]
	return ok && l.Restarts == j.Restarts
}

// updateObstacles takes over the obstacles that nodes have found in the jobs that they lead since these were asked
// about.
func updateObstacles(known map[int64]Protection, led map[int64]LedRun) {
	for id, l := range led {
		if p, ok := known[id]; ok && p.Is && p.Restarts == l.Restarts {
			p.Obstacle = l.Obstacle
			known[id] = p
		}
	}
}

// capsuleDelay is how long after its start a job has its capsule, or will have no capsule.
const capsuleDelay = time.Minute

func (w *Watch) fetchProtection(ctx context.Context, j *slurmrest.Job, at time.Time) (Protection, error) {
	shown, err := w.Proxyd.Show(ctx, j)
	switch {
	case err == nil && shown.GetLends() != nil: // a lease has no programs of its own
		p := Protection{Restarts: j.Restarts, Obstacle: fmt.Sprintf("it lends its GPUs to job %d", shown.GetLends().GetJob())}
		if len(shown.GetLends().GetGpus()) > 0 {
			p.Lends = int64(shown.GetLends().GetJob())
		} else {
			p.early = at.Sub(j.StartTime) < capsuleDelay
		}
		return p, nil
	case err == nil && len(shown.GetCapsules()) == 0: // only checkpoints of earlier runs are known, and no options
		if at.Sub(j.StartTime) < capsuleDelay {
			return Protection{Restarts: j.Restarts, Obstacle: "its nodes have not made its capsules yet", early: true}, nil
		}
		return Protection{Restarts: j.Restarts, Obstacle: "its nodes have no capsules of this run"}, nil // until a node leads the run
	case err == nil:
		return Protection{Restarts: j.Restarts, Is: true, Obstacle: firstObstacle(shown), GPUs: shown.GetOptions()["gpus"], Software: hasSoftwareGPUs(shown)}, nil
	case errors.Is(err, rpc.ErrNotProtected), errors.Is(err, rpc.ErrNoJob):
		return Protection{Restarts: j.Restarts, Obstacle: err.Error(), early: at.Sub(j.StartTime) < capsuleDelay}, nil
	}
	return Protection{}, err
}

// softwareGPU is the name of all software GPUs (Name in proxyd/softgpu).
const softwareGPU = "Singularity software GPU"

// hasSoftwareGPUs reports whether each capsule of a job has GPUs, and software GPUs only.
func hasSoftwareGPUs(j *rpc.Job) bool {
	for _, c := range j.GetCapsules() {
		devices := c.GetDevices().GetDevices()
		if len(devices) == 0 || slices.ContainsFunc(devices, func(d *rpc.Device) bool { return d.GetName() != softwareGPU }) {
			return false
		}
	}
	return len(j.GetCapsules()) > 0
}

// firstObstacle returns the first obstacle of a job; "": it has none.
func firstObstacle(j *rpc.Job) string {
	if all := j.GetObstacles(); len(all) > 0 {
		return all[0].GetWhat()
	}
	return ""
}
