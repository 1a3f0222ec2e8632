// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// Checkpoint is a checkpoint of a job, as the last look at the store found it.
type Checkpoint struct {
	Number    uint32
	Made      time.Time
	Took      time.Duration
	Captured  int64 // bytes
	Stored    int64 // bytes that the checkpoint added to the store
	Reason    string
	Nodes     []string
	Uploading bool   // the checkpoint lies on its nodes, and not in the store yet
	Problem   string // why the checkpoint cannot be used; "": it can be used
}

// jobPastJSON is the answer to /api/v1/jobs/JOB: decisions about a job, actions on the job, and its checkpoints.
type jobPastJSON struct {
	ID          int64            `json:"id"`
	Actions     []actionJSON     `json:"actions"`     // newest first
	Events      []eventJSON      `json:"events"`      // events by other users and programs, newest first
	Decisions   []decisionJSON   `json:"decisions"`   // newest first
	Checkpoints []checkpointJSON `json:"checkpoints"` // newest first
	Problem     string           `json:"problem,omitempty"`
}

type eventJSON struct {
	At       int64  `json:"at"`
	What     string `json:"what"` // "preempted", "requeued", "node failed", "work lost"
	Text     string `json:"text"`
	Restarts int64  `json:"restarts"` // of the job, after the event
}

type checkpointJSON struct {
	Number    uint32   `json:"number"`
	Made      int64    `json:"made"`
	Took      float64  `json:"took"`     // seconds
	Captured  int64    `json:"captured"` // bytes
	Stored    int64    `json:"stored"`   // bytes that it added to the store
	Reason    string   `json:"reason"`
	Nodes     []string `json:"nodes"`
	Uploading bool     `json:"uploading"` // the checkpoint is on its nodes, and not in the store yet
	Problem   string   `json:"problem,omitempty"`
}

// Obstacle is a part of a job that cannot be captured.
type Obstacle struct {
	Where string // program, node and process
	What  string
	Cure  string // how the user can mend it; "": not known
	Since time.Time
}

type obstacleJSON struct {
	Where string `json:"where"`
	What  string `json:"what"`
	Cure  string `json:"cure,omitempty"`
	Since int64  `json:"since"`
}

// maxPast bounds how many actions, and how many events, of a job are sent.
const maxPast = 50

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("job"), 10, 64)
	if err != nil || id <= 0 {
		refuseRequest(w, http.StatusBadRequest, refusal{Kind: "invalid", Error: "want Slurm's number of the job"})
		return
	}
	d, err := s.past.getOrBuild(id, time.Now(), func() (any, error) { return s.pastOfJob(context.WithoutCancel(r.Context()), id), nil })
	if err != nil {
		refuseRequest(w, http.StatusInternalServerError, refusal{Kind: "internal", Error: err.Error()})
		return
	}
	d.sendTo(w, r)
}

func (s *Server) pastOfJob(ctx context.Context, id int64) *jobPastJSON {
	now := s.opt.State()
	all := &jobPastJSON{ID: id, Actions: []actionJSON{}, Events: []eventJSON{}, Decisions: []decisionJSON{}, Checkpoints: []checkpointJSON{}}
	if now.Journal != nil {
		if err := s.addPast(ctx, all, now.Journal); err != nil {
			s.opt.Log.Warn("the page cannot read the journal", "error", err)
			all.Problem = "the journal cannot be read; preemptd's log says why"
		}
	}
	if last := s.currentSnapshot(&now); last != nil && now.Checkpoints != nil {
		if j, ok := last.Job(sdk.JobID(id)); ok {
			all.addCheckpoints(now.Checkpoints(j.Label))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all.Decisions = slices.DeleteFunc(s.decisions.newestFirst(), func(d decisionJSON) bool { return d.Job != id })
	return all
}

func (s *Server) addPast(ctx context.Context, all *jobPastJSON, j Journal) error {
	done, err := j.History(ctx, all.ID, maxPast)
	if err != nil {
		return err
	}
	for i := range done {
		all.Actions = append(all.Actions, s.publicAction(&done[i]))
	}
	events, err := j.Events(ctx, all.ID, maxPast)
	for _, e := range events {
		all.Events = append(all.Events, eventJSON{e.At.Unix(), e.What, e.Text, e.Restarts})
	}
	return err
}

func (all *jobPastJSON) addCheckpoints(oldestFirst []Checkpoint) {
	for _, c := range slices.Backward(oldestFirst) {
		all.Checkpoints = append(all.Checkpoints, checkpointJSON{
			c.Number, unixSeconds(c.Made), c.Took.Seconds(), c.Captured, c.Stored, c.Reason, append([]string{}, c.Nodes...), c.Uploading, c.Problem,
		})
	}
}

func (s *Server) getObstacles(w http.ResponseWriter, r *userRequest) error {
	id, err := strconv.ParseInt(r.PathValue("job"), 10, 64)
	if err != nil || id <= 0 {
		return rpc.Status(rpc.Errorf(rpc.ErrInvalid, "want Slurm's number of the job"))
	}
	// Package api says which users may see a job's history, and so the job.
	if _, err := r.requests.History(r.Context(), &rpc.HistoryRequest{Job: strconv.FormatInt(id, 10), Limit: 1}); err != nil {
		return err
	}
	ask := s.opt.State().Obstacles
	if ask == nil {
		refuseRequest(w, http.StatusServiceUnavailable, refusal{Kind: "unreachable", Error: "preemptd does not reach slurmrestd yet"})
		return nil
	}
	found, err := ask(r.Context(), id)
	if err != nil {
		refuseRequest(w, http.StatusServiceUnavailable, refusal{Kind: "unreachable", Error: fmt.Sprintf("job %d: %v", id, err)})
		return nil
	}
	all := struct {
		Obstacles []obstacleJSON `json:"obstacles"`
	}{[]obstacleJSON{}}
	for _, o := range found {
		all.Obstacles = append(all.Obstacles, obstacleJSON{o.Where, o.What, o.Cure, unixSeconds(o.Since)})
	}
	d, err := newDocument(all)
	if err == nil {
		d.sendTo(w, r.Request)
	}
	return err
}
