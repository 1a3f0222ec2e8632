// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.starlark.net/starlark"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// object is a value that a file can look at. Its attributes are made when they are asked for: a cluster has many.
type object[T any] struct {
	kind       string
	name       string
	at         *sdk.Snapshot
	of         *T
	attributes map[string]func(*sdk.Snapshot, *T) starlark.Value
}

func (o object[T]) String() string        { return o.name }
func (o object[T]) Type() string          { return o.kind }
func (o object[T]) Freeze()               {} // an object never changes
func (o object[T]) Truth() starlark.Bool  { return true }
func (o object[T]) Hash() (uint32, error) { return starlark.String(o.name).Hash() }

// Attr returns an attribute; nil if the object has no attribute of that name, and Starlark reports that to the file.
func (o object[T]) Attr(name string) (starlark.Value, error) {
	if get := o.attributes[name]; get != nil {
		return get(o.at, o.of), nil
	}
	return nil, nil
}

// AttrNames returns the names of all attributes.
func (o object[T]) AttrNames() []string { return slices.Sorted(maps.Keys(o.attributes)) }

func newCluster(s *sdk.Snapshot) object[sdk.Snapshot] {
	return object[sdk.Snapshot]{"cluster", "cluster " + s.Cluster, s, s, clusterAttributes}
}

func newJob(s *sdk.Snapshot, i int) object[sdk.Job] {
	return object[sdk.Job]{"job", fmt.Sprintf("job %d", s.Jobs[i].ID), s, &s.Jobs[i], jobAttributes}
}

func newNode(s *sdk.Snapshot, i int) object[sdk.Node] {
	return object[sdk.Node]{"node", "node " + s.Nodes[i].Name, s, &s.Nodes[i], nodeAttributes}
}

// zone is the controller's time zone: that of the site's working hours and weekdays.
var zone = time.Local

var weekdays = [...]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

var clusterAttributes = map[string]func(*sdk.Snapshot, *sdk.Snapshot) starlark.Value{
	"name":       func(s, _ *sdk.Snapshot) starlark.Value { return starlark.String(s.Cluster) },
	"time":       func(s, _ *sdk.Snapshot) starlark.Value { return starlark.MakeInt64(s.Time.Unix()) },
	"hour":       func(s, _ *sdk.Snapshot) starlark.Value { return starlark.MakeInt(s.Time.Hour()) }, // UTC
	"local_hour": func(s, _ *sdk.Snapshot) starlark.Value { return starlark.MakeInt(s.Time.In(zone).Hour()) },
	"weekday": func(s, _ *sdk.Snapshot) starlark.Value {
		return starlark.String(weekdays[s.Time.In(zone).Weekday()])
	},
	"window": func(s, _ *sdk.Snapshot) starlark.Value { return secondsOf(s.Rules.Window) },
	"jobs": func(s, _ *sdk.Snapshot) starlark.Value {
		return frozenList(len(s.Jobs), func(i int) starlark.Value {
			return newJob(s, i)
		})
	},
	"nodes": func(s, _ *sdk.Snapshot) starlark.Value {
		return frozenList(len(s.Nodes), func(i int) starlark.Value {
			return newNode(s, i)
		})
	},
}

var jobAttributes = map[string]func(*sdk.Snapshot, *sdk.Job) starlark.Value{
	"id":          func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt64(int64(j.ID)) },
	"label":       func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Label) },
	"name":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Name) },
	"user":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.User) },
	"account":     func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Account) },
	"partition":   func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Partition) },
	"qos":         func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.QOS) },
	"tier":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Tier.String()) },
	"state":       func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.State.String()) },
	"held_by":     func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.HeldBy.String()) },
	"action":      func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.String(j.Action) },
	"priority":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt64(j.Priority) },
	"gang":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt64(int64(j.Gang)) },
	"restarts":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.Restarts) },
	"preemptable": func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.Bool(j.Preemptable) },
	"promised":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.Float(j.Promised) },
	"fraction":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.Float(j.Fraction) },
	"tasks":       func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.Tasks) },
	"capsules":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.Capsules) },
	"gpus":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.GPUs) },
	"leased":      func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.Leased) },
	"request":     func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.Request) },
	"min_gpus":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.MinGPUs) },
	"max_gpus":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return starlark.MakeInt(j.MaxGPUs) },
	"dump":        func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return secondsOf(j.Checkpoint.Dump) },
	"restore":     func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return secondsOf(j.Checkpoint.Restore) },
	"in_place":    func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return secondsOf(j.PauseInPlace) },
	"runs_for":    func(s *sdk.Snapshot, j *sdk.Job) starlark.Value { return secondsSince(s, j.Started) },
	"time_left": func(s *sdk.Snapshot, j *sdk.Job) starlark.Value {
		if j.Limit == 0 || j.Started.IsZero() {
			return secondsOf(j.Limit)
		}
		return secondsOf(max(0, j.Started.Add(j.Limit).Sub(s.Time)))
	},
	"checkpoint_age": func(s *sdk.Snapshot, j *sdk.Job) starlark.Value {
		if j.Checkpoint.At.IsZero() {
			return starlark.Float(-1)
		}
		return secondsOf(s.Time.Sub(j.Checkpoint.At))
	},
	"limit": func(_ *sdk.Snapshot, j *sdk.Job) starlark.Value { return secondsOf(j.Limit) },
	"waits_for": func(s *sdk.Snapshot, j *sdk.Job) starlark.Value {
		if j.State != sdk.Waiting {
			return starlark.MakeInt(0)
		}
		return secondsSince(s, j.Eligible)
	},
	"nodes": func(s *sdk.Snapshot, j *sdk.Job) starlark.Value {
		return frozenList(len(j.Shares), func(i int) starlark.Value { return starlark.String(s.Nodes[j.Shares[i].Node].Name) })
	},
}

var nodeAttributes = map[string]func(*sdk.Snapshot, *sdk.Node) starlark.Value{
	"name":   func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.String(n.Name) },
	"state":  func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.String(n.State.String()) },
	"reason": func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.String(n.Reason) },
	"gpus":   func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.MakeInt(len(n.GPUs)) },
	"usable": func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.MakeInt(n.Usable().Count()) },
	"watts":  func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.Float(n.Watts) },
	"cpus":   func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.MakeInt(n.CPUs) },
	"memory": func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value { return starlark.MakeInt64(n.Memory) },
	"features": func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value {
		return frozenList(len(n.Features), func(i int) starlark.Value { return starlark.String(n.Features[i]) })
	},
	"partitions": func(_ *sdk.Snapshot, n *sdk.Node) starlark.Value {
		return frozenList(len(n.Partitions), func(i int) starlark.Value { return starlark.String(n.Partitions[i]) })
	},
}

// frozenList is a list that cannot be changed.
func frozenList(n int, at func(i int) starlark.Value) starlark.Value {
	values := make(starlark.Tuple, n)
	for i := range values {
		values[i] = at(i)
	}
	return values
}

func secondsOf(d time.Duration) starlark.Value { return starlark.Float(d.Seconds()) }

// secondsSince is how many seconds a time lies before the snapshot; 0 if the time is zero.
func secondsSince(s *sdk.Snapshot, t time.Time) starlark.Value {
	if t.IsZero() {
		return starlark.MakeInt(0)
	}
	return secondsOf(s.Time.Sub(t))
}
