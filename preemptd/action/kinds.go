// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
)

// Args are the arguments of an action, beside its job. Each kind takes some of them.
type Args struct {
	// Nodes that the job is to run on, all of them; empty: Slurm chooses.
	Nodes []string `json:"nodes,omitempty"`
	// Avoid names nodes that the job is not to run on, beside the nodes that the job excludes
	// itself.
	Avoid []string `json:"avoid,omitempty"`
	// NodeCount is how many nodes the job gets; 0: as many as now, or as many as Nodes.
	NodeCount int64 `json:"nodeCount,omitempty"`
	// GPUs that the job gets on each node; 0: as many as now.
	GPUs int64  `json:"gpus,omitempty"`
	QOS  string `json:"qos,omitempty"`
	// Swap gives the job its size though the memory of the ranks that share a GPU would not fit there.
	Swap bool `json:"swap,omitempty"`
	// Hold leaves the job held until a resume.
	Hold bool `json:"hold,omitempty"`
	// For is the waiting job for which this action makes room; 0: no job. Room is kept for that job (MakesRoom).
	For int64 `json:"for,omitempty"`
	// ForNodes are the nodes where the job For is to have the room.
	ForNodes []string `json:"forNodes,omitempty"`
}

// kind is an action's list of steps, and the arguments that the action takes.
type kind struct {
	participle string           // "preempted", for sentences
	arguments  []string         // those that the kind takes, by the words of Encode
	check      func(Args) error // may be nil
	steps      func(Args) []step
	// target changes the job's request; nil: only the changes of an earlier action are taken back.
	target func(Args, *jobrequest.Request) error
	// mustWait: only for jobs that do not run; mustRun: only for jobs that run.
	mustWait, mustRun bool
	// releasesHold: the action releases a hold, of any user or program.
	releasesHold bool
}

// kinds are all actions, by name. Each is in a file of its own.
var kinds = map[string]kind{
	"preempt": preempt,
	"resume":  resume,
	"migrate": migrate,
	"resize":  resize,
	"hold":    hold,
	"release": release,
	"requeue": requeue,
	"place":   place,
}

func findKind(name string) (kind, error) {
	k, ok := kinds[name]
	if !ok {
		return kind{}, fmt.Errorf("there is no action %q: %s", name, strings.Join(Kinds(), ", "))
	}
	return k, nil
}

// Kinds returns the names of all actions.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Encode checks arguments for a kind of action, and returns them as the journal keeps them. Its error names the wrong
// argument.
func Encode(name string, args Args) (json.RawMessage, error) {
	k, err := findKind(name)
	if err != nil {
		return nil, err
	}
	for _, given := range []struct {
		what string
		is   bool
	}{
		{"nodes", len(args.Nodes) > 0}, {"avoid", len(args.Avoid) > 0}, {"node count", args.NodeCount != 0},
		{"gpus", args.GPUs != 0}, {"qos", args.QOS != ""}, {"hold", args.Hold}, {"swap", args.Swap},
	} {
		if given.is && !slices.Contains(k.arguments, given.what) {
			return nil, fmt.Errorf("%s takes no %s", name, given.what)
		}
	}
	if args.NodeCount < 0 || args.GPUs < 0 {
		return nil, errors.New("a number of nodes or GPUs cannot be negative")
	}
	names := slices.Concat(args.Nodes, args.Avoid)
	if args.QOS != "" {
		names = append(names, args.QOS)
	}
	for _, n := range names {
		if n == "" || strings.ContainsAny(n, " ,[]\t\n\"'") {
			return nil, fmt.Errorf("%q is not a name", n)
		}
	}
	for _, n := range args.Nodes {
		if slices.Contains(args.Avoid, n) {
			return nil, fmt.Errorf("node %s is both to be used and to be avoided", n)
		}
	}
	if k.check != nil {
		if err := k.check(args); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.Marshal(args)
}

// placeAndSize is the target of most kinds of action: other nodes, and the resources of the job on each node.
func placeAndSize(a Args, r *jobrequest.Request) error {
	r.ExcludeNodes(a.Avoid)
	if err := r.RequireNodes(a.Nodes); err != nil {
		return err
	}
	return r.Resize(a.NodeCount, a.GPUs)
}
