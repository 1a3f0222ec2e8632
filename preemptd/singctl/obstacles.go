// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// sameObstacle is an obstacle that several processes of the same command have, such as the ranks of a job.
type sameObstacle struct {
	first *rpc.Obstacle
	since *timestamppb.Timestamp // when the first of them was found
	more  int                    // further processes
}

// groupObstacles brings the obstacles together that are the same but for the process, in the order of the first of each.
func groupObstacles(all []*rpc.Obstacle) []*sameObstacle {
	type kind struct{ command, what, cure string }
	var groups []*sameObstacle
	found := map[kind]*sameObstacle{}
	for _, o := range all {
		k := kind{o.GetCommand(), o.GetWhat(), o.GetCure()}
		g := found[k]
		if g == nil {
			g = &sameObstacle{first: o, since: o.GetSince()}
			found[k], groups = g, append(groups, g)
			continue
		}
		if g.more++; o.GetSince() != nil && (g.since == nil || o.GetSince().AsTime().Before(g.since.AsTime())) {
			g.since = o.GetSince()
		}
	}
	return groups
}

// String names the first process with the obstacle, and how many more have it.
func (g *sameObstacle) String() string { return obstacleText(g.first, g.more) }

// obstacleText says what an obstacle is. more is the number of further processes that have it.
func obstacleText(o *rpc.Obstacle, more int) string {
	s := o.GetProgram()
	if o.GetNode() != "" {
		s += " on " + o.GetNode()
	}
	if o.GetPid() != 0 {
		s += fmt.Sprintf(": process %d", o.GetPid())
		if o.GetCommand() != "" {
			s += " (" + o.GetCommand() + ")"
		}
		if more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
	}
	s += ": " + o.GetWhat()
	if o.GetCure() != "" {
		s += ": " + o.GetCure()
	}
	return safeLine(strings.TrimPrefix(s, ": "))
}

// textForPeople is an error's text without the obstacles that proxyd names at its end: they stand below the text, each on
// a line of its own.
func textForPeople(err error) string {
	var e *rpc.Error
	text := err.Error()
	if !errors.As(err, &e) || len(e.Obstacles) == 0 {
		return text
	}
	first := e.Obstacles[0]
	begin := first.GetWhat()
	if first.GetPid() != 0 {
		begin = fmt.Sprintf("%s (PID %d", first.GetCommand(), first.GetPid())
	}
	if at := strings.Index(text, begin); at >= 0 {
		return text[:at] + "this cannot be captured:"
	}
	return text
}
