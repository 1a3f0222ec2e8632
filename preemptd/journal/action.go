// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"
)

// State is the state of an action.
type State string

// The states. Going and Undoing go on; the rest are final.
const (
	// Going: its steps are being done.
	Going State = "going"
	// Undoing: the action could not be finished, and its changes are being taken back.
	Undoing State = "undoing"
	// Done: all its steps are done.
	Done State = "done"
	// Undone: the action could not be done; the job is as before.
	Undone State = "undone"
	// Dropped: another user or program did something to the job, which was left to them.
	Dropped State = "dropped"
	// Stuck: the action could neither be finished nor undone; a person is needed.
	Stuck State = "stuck"
)

// Ended reports whether no more steps will be done.
func (s State) Ended() bool { return s != Going && s != Undoing }

// Ends are the states in which an action stays.
func Ends() []string { return []string{string(Done), string(Undone), string(Dropped), string(Stuck)} }

// NoReason is an action's Why if its requester gave no reason. Texts for people leave NoReason out.
const NoReason = "asked"

// PolicyPrefix begins the requester of an action that a policy asks for: "policy tiers". No user has such a name. Policies
// do not wait for the end of their actions, and see with each snapshot how jobs are.
const PolicyPrefix = "policy "

// Request is an action to be.
type Request struct {
	Kind string // "preempt"
	Job  int64  // Slurm's id; an array's task has its own
	User string // owner of the job; "": not known
	Args json.RawMessage
	Who  string // "alice", "policy tiers"
	Why  string
}

// Action is a change to a job, with its progress.
type Action struct {
	ID    int64
	Token string // unique, also among the actions of other journals
	Request
	Created time.Time

	// The fields below change while the action is done.
	Revision  int64
	State     State
	Step      string // being done, or done next
	StepBegan time.Time
	Attempt   int       // how often the step was tried in vain
	NotBefore time.Time // of the next try
	Memo      json.RawMessage
	Problem   string // why the action did not go on, or ended as it did
	Ended     time.Time
}

// Line is an entry of an action's history.
type Line struct {
	At      time.Time
	State   State
	Step    string
	Attempt int
	Text    string
}

// Begin opens an action. The error is ErrBusy if the job has an action that has not ended.
func (j *Journal) Begin(ctx context.Context, r Request) (Action, error) {
	token := make([]byte, 6)
	rand.Read(token)
	now := j.now()
	a := Action{Token: hex.EncodeToString(token), Request: r, Created: now, State: Going, StepBegan: now, Memo: json.RawMessage("{}")}
	if len(a.Args) == 0 {
		a.Args = json.RawMessage("{}")
	}
	err := j.writeWithMandate(ctx, fmt.Sprintf("job %d: begin %s", r.Job, r.Kind), func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO action (token, kind, job, user, args, who, why, created, revision, state, step, step_began, attempt, not_before, memo, problem, ended)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '', ?, 0, 0, ?, '', 0)`,
			a.Token, r.Kind, r.Job, r.User, string(a.Args), r.Who, r.Why, unixNano(now), string(a.State), unixNano(now), string(a.Memo))
		if err != nil {
			return err
		}
		if a.ID, err = res.LastInsertId(); err != nil {
			return err
		}
		return addLine(ctx, tx, &a, now, "")
	})
	var e sqlite3.Error
	if errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrConstraintUnique {
		return Action{}, fmt.Errorf("job %d: %s: %w", r.Job, r.Kind, ErrBusy)
	}
	if err != nil {
		return Action{}, err
	}
	return a, nil
}

// Save writes the action, and text as a line of its history. A new step's time begins now; Ended is
// set when the state is final. The error is ErrStale if the action in the journal has changed since
// a was read. After an error the action is as before the call.
func (j *Journal) Save(ctx context.Context, a *Action, text string) error {
	now := j.now()
	next := *a
	next.Revision++
	if next.State.Ended() {
		next.Ended = now
	}
	err := j.writeWithMandate(ctx, fmt.Sprintf("action %d", a.ID), func(tx *sql.Tx) error {
		var step string
		err := tx.QueryRowContext(ctx, "SELECT step FROM action WHERE id = ?", a.ID).Scan(&step)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoAction
		}
		if err != nil {
			return err
		}
		if step != next.Step {
			next.StepBegan = now
		}
		res, err := tx.ExecContext(ctx, `UPDATE action SET revision = ?, state = ?, step = ?, step_began = ?, attempt = ?, not_before = ?, memo = ?, problem = ?, ended = ?
			WHERE id = ? AND revision = ? AND ended = 0`,
			next.Revision, string(next.State), next.Step, unixNano(next.StepBegan), next.Attempt, unixNano(next.NotBefore), string(next.Memo), next.Problem, unixNano(next.Ended), a.ID, a.Revision)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, ErrStale)
		}
		return addLine(ctx, tx, &next, now, text)
	})
	if err == nil {
		*a = next
	}
	return err
}

func addLine(ctx context.Context, tx *sql.Tx, a *Action, at time.Time, text string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO line (action, revision, at, state, step, attempt, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
		a.ID, a.Revision, unixNano(at), string(a.State), a.Step, a.Attempt, text)
	return err
}

const columns = "id, token, kind, job, user, args, who, why, created, revision, state, step, step_began, attempt, not_before, memo, problem, ended"

// Unfinished returns the actions that have not ended, oldest first.
func (j *Journal) Unfinished(ctx context.Context) ([]Action, error) {
	return j.queryActions(ctx, "WHERE ended = 0 ORDER BY id")
}

// Action returns an action; the error is ErrNoAction if the journal does not have the action.
func (j *Journal) Action(ctx context.Context, id int64) (Action, error) {
	all, err := j.queryActions(ctx, "WHERE id = ?", id)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("action %d: %w", id, ErrNoAction)
	}
	if err != nil {
		return Action{}, err
	}
	return all[0], nil
}

// History returns the newest actions, newest first: of a job, or with 0 of all.
func (j *Journal) History(ctx context.Context, job int64, most int) ([]Action, error) {
	if job == 0 {
		return j.queryActions(ctx, "ORDER BY id DESC LIMIT ?", most)
	}
	return j.queryActions(ctx, "WHERE job = ? ORDER BY id DESC LIMIT ?", job, most)
}

// Latest returns the last action of each job that was done, and did not fail.
func (j *Journal) Latest(ctx context.Context) ([]Action, error) {
	return j.queryActions(ctx, "WHERE id IN (SELECT max(id) FROM action WHERE state = ? GROUP BY job) ORDER BY id", string(Done))
}

// Tried returns when the last action of each job ended, however it ended.
func (j *Journal) Tried(ctx context.Context) (map[int64]time.Time, error) {
	rows, err := j.database().QueryContext(ctx, "SELECT job, max(ended) FROM action WHERE ended > 0 GROUP BY job")
	if err != nil {
		return nil, fmt.Errorf("journal: tried: %w", translateError(err))
	}
	defer rows.Close()
	all := map[int64]time.Time{}
	for rows.Next() {
		var job, ended int64
		if err := rows.Scan(&job, &ended); err != nil {
			return nil, fmt.Errorf("journal: tried: %w", translateError(err))
		}
		all[job] = fromUnixNano(ended)
	}
	return all, translateError(rows.Err())
}

func (j *Journal) queryActions(ctx context.Context, where string, args ...any) ([]Action, error) {
	rows, err := j.database().QueryContext(ctx, "SELECT "+columns+" FROM action "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("journal: actions: %w", translateError(err))
	}
	defer rows.Close()
	var all []Action
	for rows.Next() {
		var a Action
		var parameters, memo, state string
		var created, began, notBefore, ended int64
		if err := rows.Scan(&a.ID, &a.Token, &a.Kind, &a.Job, &a.User, &parameters, &a.Who, &a.Why, &created, &a.Revision, &state,
			&a.Step, &began, &a.Attempt, &notBefore, &memo, &a.Problem, &ended); err != nil {
			return nil, fmt.Errorf("journal: actions: %w", translateError(err))
		}
		a.Args, a.Memo, a.State = json.RawMessage(parameters), json.RawMessage(memo), State(state)
		a.Created, a.StepBegan, a.NotBefore, a.Ended = fromUnixNano(created), fromUnixNano(began), fromUnixNano(notBefore), fromUnixNano(ended)
		all = append(all, a)
	}
	return all, translateError(rows.Err())
}

// Lines returns the history of an action, oldest first.
func (j *Journal) Lines(ctx context.Context, id int64) ([]Line, error) {
	rows, err := j.database().QueryContext(ctx, "SELECT at, state, step, attempt, text FROM line WHERE action = ? ORDER BY revision", id)
	if err != nil {
		return nil, fmt.Errorf("journal: lines: %w", translateError(err))
	}
	defer rows.Close()
	var all []Line
	for rows.Next() {
		var l Line
		var at int64
		var state string
		if err := rows.Scan(&at, &state, &l.Step, &l.Attempt, &l.Text); err != nil {
			return nil, fmt.Errorf("journal: lines: %w", translateError(err))
		}
		l.At, l.State = fromUnixNano(at), State(state)
		all = append(all, l)
	}
	return all, translateError(rows.Err())
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromUnixNano(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
