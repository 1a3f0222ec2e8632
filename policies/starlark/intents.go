// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"fmt"

	"go.starlark.net/starlark"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// intent is the value that a function of a verb returns.
type intent struct{ sdk.Intent }

func (i intent) String() string        { return i.Intent.String() }
func (i intent) Type() string          { return "intent" }
func (i intent) Freeze()               {}
func (i intent) Truth() starlark.Bool  { return true }
func (i intent) Hash() (uint32, error) { return 0, fmt.Errorf("an intent is no key") }

// builtins are the functions that a file has beside Starlark's own: a function for each verb. The
// job is the job itself or its id.
//
//	preempt(job, reason, for_job = None, park = False)
//	resume(job, reason, where = [])
//	migrate(job, reason, for_job = None, where = [], avoid = [])
//	resize(job, reason, gpus, for_job = None, where = [])
//	hold(job, reason)            release(job, reason)
//	requeue(job, reason, qos, park = False)
//	place(job, reason, where)
//
// where is a list of (node, capsules, GPUs), avoid a list of names of nodes.
var builtins = func() starlark.StringDict {
	functions := starlark.StringDict{}
	for verb := sdk.Preempt; verb <= sdk.Place; verb++ {
		functions[verb.String()] = starlark.NewBuiltin(verb.String(), verbFunction(verb))
	}
	return functions
}()

// takes is which arguments each verb has beside job, reason and for_job; the rest is refused.
var takes = map[sdk.Verb][]string{
	sdk.Preempt: {"park?"},
	sdk.Resume:  {"where?"},
	sdk.Migrate: {"where?", "avoid?"},
	sdk.Resize:  {"gpus", "where?"},
	sdk.Requeue: {"qos", "park?"},
	sdk.Place:   {"where"},
}

// verbFunction is the function of a verb.
func verbFunction(verb sdk.Verb) func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, named []starlark.Tuple) (starlark.Value, error) {
		i := sdk.Intent{Verb: verb}
		var job, other starlark.Value
		var where, avoid *starlark.List
		fields := map[string]any{"park?": &i.Park, "where?": &where, "where": &where, "avoid?": &avoid, "gpus": &i.GPUs, "qos": &i.QOS}
		pairs := []any{"job", &job, "reason", &i.Reason}
		for _, name := range takes[verb] {
			pairs = append(pairs, name, fields[name])
		}
		pairs = append(pairs, "for_job?", &other)
		if err := starlark.UnpackArgs(b.Name(), args, named, pairs...); err != nil {
			return nil, err
		}
		var err error
		if i.Job, err = jobOf(job); err != nil {
			return nil, err
		}
		if other != nil && other != starlark.None {
			if i.For, err = jobOf(other); err != nil {
				return nil, err
			}
		}
		if i.Where, err = spotsOf(where); err != nil {
			return nil, err
		}
		i.Avoid, err = namesOf(avoid)
		return intent{i}, err
	}
}

// jobOf is a job's id, of the job or of the number.
func jobOf(v starlark.Value) (sdk.JobID, error) {
	switch v := v.(type) {
	case object[sdk.Job]:
		return v.of.ID, nil
	case starlark.Int:
		if id, ok := v.Int64(); ok {
			return sdk.JobID(id), nil
		}
	}
	return 0, fmt.Errorf("%v is no job", v)
}

func spotsOf(l *starlark.List) ([]sdk.Spot, error) {
	if l == nil {
		return nil, nil
	}
	spots := make([]sdk.Spot, l.Len())
	for i := range spots {
		t, ok := l.Index(i).(starlark.Tuple)
		if !ok {
			return nil, fmt.Errorf("where: %v is not (node, capsules, GPUs)", l.Index(i))
		}
		if err := starlark.UnpackPositionalArgs("where", t, nil, 3, &spots[i].Node, &spots[i].Capsules, &spots[i].GPUs); err != nil {
			return nil, err
		}
	}
	return spots, nil
}

func namesOf(l *starlark.List) ([]string, error) {
	if l == nil {
		return nil, nil
	}
	names := make([]string, l.Len())
	for i := range names {
		name, ok := starlark.AsString(l.Index(i))
		if !ok {
			return nil, fmt.Errorf("avoid: %v is no name of a node", l.Index(i))
		}
		names[i] = name
	}
	return names, nil
}
