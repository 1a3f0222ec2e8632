// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// timelineJSON is the answer to /api/v1/timeline.
type timelineJSON struct {
	From int64      `json:"from"`
	To   int64      `json:"to"`
	Jobs []lifeJSON `json:"jobs"`
	More int        `json:"more"` // further jobs that match, and are left out
}

type lifeJSON struct {
	ID    int64      `json:"id"`
	Label string     `json:"label"`
	Name  string     `json:"name"`
	User  string     `json:"user"`
	Tier  string     `json:"tier"`
	Parts []partJSON `json:"parts"` // oldest first
	Marks []markJSON `json:"marks"` // actions, and events by other users and programs
}

type partJSON struct {
	From  int64  `json:"from"`
	To    int64  `json:"to"` // 0: the part lasts
	State string `json:"state"`
	GPUs  int    `json:"gpus"`
}

type markJSON struct {
	From  int64  `json:"from"`
	To    int64  `json:"to"`    // 0: under way
	Kind  string `json:"kind"`  // of the action; or "preempted", "requeued", "node failed", "work lost"
	State string `json:"state"` // "": done by another user or program
	Who   string `json:"who"`   // likewise
	Why   string `json:"why"`
}

const (
	usualLives = 100
	mostLives  = 500
	usualHours = 6
	maxMatch   = 100
	maxMarks   = 2000 // that are read from the journal
)

// span is the requested part of the timeline.
type span struct {
	last         *sdk.Snapshot
	hours, limit int
	match        string
}

func (s *Server) getTimeline(w http.ResponseWriter, r *http.Request) {
	q := span{hours: usualHours, limit: usualLives, match: r.URL.Query().Get("match")}
	if !readQueryNumber(r, "hours", 24, &q.hours) || !readQueryNumber(r, "limit", mostLives, &q.limit) || len(q.match) > maxMatch || !utf8.ValidString(q.match) {
		refuseRequest(w, http.StatusBadRequest, refusal{Kind: "invalid", Error: "want hours from 1 to 24, limit from 1 to 500, match of at most 100 bytes"})
		return
	}
	now := s.opt.State()
	q.last = s.currentSnapshot(&now)
	d, err := s.timeline.getOrBuild(q, time.Now(), func() (any, error) { return s.pastTimeline(context.WithoutCancel(r.Context()), &now, q), nil })
	if err != nil {
		refuseRequest(w, http.StatusInternalServerError, refusal{Kind: "internal", Error: err.Error()})
		return
	}
	d.sendTo(w, r)
}

func (s *Server) pastTimeline(ctx context.Context, now *State, q span) *timelineJSON {
	all := &timelineJSON{Jobs: []lifeJSON{}}
	if q.last == nil {
		return all
	}
	from := q.last.Time.Add(-time.Duration(q.hours) * time.Hour)
	all.From, all.To = from.Unix(), q.last.Time.Unix()
	all.Jobs, all.More = s.livesWithin(from, q.match, q.limit)
	if now.Journal != nil && len(all.Jobs) > 0 {
		if err := all.addActions(ctx, now.Journal); err != nil {
			s.opt.Log.Warn("the page cannot read the journal", "error", err)
		}
	}
	return all
}

// readQueryNumber reads a number from 1 to most of the query, if the query has that number.
func readQueryNumber(r *http.Request, name string, most int, into *int) bool {
	text := r.URL.Query().Get(name)
	if text == "" {
		return true
	}
	n, err := strconv.Atoi(text)
	*into = n
	return err == nil && n >= 1 && n <= most
}

func (s *Server) livesWithin(from time.Time, match string, limit int) (shown []lifeJSON, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.lives.livesWithin(from, match)
	shown = []lifeJSON{}
	for _, l := range found[:min(limit, len(found))] {
		one := lifeJSON{ID: int64(l.id), Label: l.label, Name: l.name, User: l.user, Tier: l.tier.String(), Parts: []partJSON{}, Marks: []markJSON{}}
		for _, p := range l.spans {
			if p.to.IsZero() || p.to.After(from) {
				one.Parts = append(one.Parts, partJSON{p.from.Unix(), unixSeconds(p.to), p.state.String(), p.gpus})
			}
		}
		shown = append(shown, one)
	}
	return shown, len(found) - len(shown)
}

// addActions adds the actions on the jobs that are shown.
func (all *timelineJSON) addActions(ctx context.Context, j Journal) error {
	rows := make(map[int64]*lifeJSON, len(all.Jobs))
	for i := range all.Jobs {
		rows[all.Jobs[i].ID] = &all.Jobs[i]
	}
	add := func(job int64, m markJSON) {
		if row := rows[job]; row != nil && (m.To == 0 || m.To >= all.From) {
			row.Marks = append(row.Marks, m)
		}
	}
	done, err := j.History(ctx, 0, maxMarks)
	if err != nil {
		return err
	}
	for i := range done {
		a := &done[i]
		add(a.Job, markJSON{unixSeconds(a.Created), unixSeconds(a.Ended), a.Kind, string(a.State), a.Who, a.Why})
	}
	events, err := j.Events(ctx, 0, maxMarks)
	for _, e := range events {
		add(e.Job, markJSON{From: e.At.Unix(), To: e.At.Unix(), Kind: e.What, Why: e.Text})
	}
	return err
}
