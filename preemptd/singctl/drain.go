// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// drainCommand is singctl drain.
type drainCommand struct{ *app }

func (a drainCommand) buildCobra() *cobra.Command {
	var reason string
	var undo, noWait bool
	c := &cobra.Command{
		Use: "drain NODES", Short: "Empty nodes for maintenance; for administrators",
		Long: `drain has Slurm start nothing more on the nodes, and waits until they are empty. With the policy "drain" the
controller moves the jobs that can be moved elsewhere, and they lose nothing; without it, and others, leave
when they end. Where checkpoints go through the nodes' own disks (staging.folder), drain waits until those that
you may see are in the store, too: before, the only copy is on a node. --no-wait waits for neither. --undo brings the nodes back into service. Slurm lets only administrators do that, not operators.

NODES are names separated by commas, or a host list, as in n[1-4,7].`,
		Args: argumentCount(1, 1, "nodes"), ValidArgsFunction: a.completeNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			state := []string{"State=DRAIN", "Reason=" + reason}
			if undo {
				state = []string{"State=UNDRAIN"}
			}
			if strings.ContainsAny(args[0], " =") || args[0] == "" {
				return rpc.Errorf(rpc.ErrInvalid, "%.80q: want names of nodes", args[0])
			}
			if err := a.slurm.updateNodes(ctx, args[0], state...); err != nil {
				return err
			}
			if undo || noWait {
				return a.printNodes(ctx, args[0])
			}
			if err := a.waitUntilEmpty(ctx, args[0]); err != nil {
				return err
			}
			uploaded := a.waitForUploads(ctx, args[0])
			return errors.Join(a.printNodes(ctx, args[0]), uploaded)
		},
	}
	c.Flags().StringVar(&reason, "reason", "maintenance", "`TEXT` that sinfo --list-reasons will show")
	c.Flags().BoolVar(&undo, "undo", false, "bring the nodes back into service")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until they are empty")
	return c
}

// waitUntilEmpty waits until no job is on the nodes any more.
func (a drainCommand) waitUntilEmpty(ctx context.Context, nodes string) error {
	p := a.newProgress()
	defer p.endLine()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		all, err := a.slurm.nodeStates(ctx, nodes)
		if err != nil {
			return err
		}
		var busy []string
		for _, n := range all {
			if strings.HasPrefix(n.state, "draining") || strings.HasPrefix(n.state, "completing") {
				busy = append(busy, n.name)
			}
		}
		if len(busy) == 0 {
			return nil
		}
		p.showProgress(&rpc.Progress{Phase: "empty", Text: "jobs are on " + strings.Join(busy, ", ")})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// uploadsAgain is how soon the list of checkpoints, which all nodes share, is asked for again.
const uploadsAgain = 2 * time.Second

// waitForUploads waits until no checkpoint is on its way from the nodes to the store. The jobs have left by then, and
// the only copy of such a checkpoint is on the nodes.
func (a drainCommand) waitForUploads(ctx context.Context, nodes string) error {
	all, err := a.slurm.nodeStates(ctx, nodes)
	if err != nil {
		return err
	}
	p := a.newProgress()
	defer p.endLine()
	tick := time.NewTicker(uploadsAgain)
	defer tick.Stop()
	for {
		var list []*rpc.Checkpoint
		err := a.callAnyDaemon(ctx, func(c *rpc.Client) (err error) {
			list, err = c.Checkpoints(ctx, "")
			return err
		})
		if err != nil {
			return fmt.Errorf("drain: the nodes are empty, but they may have the only copy of a checkpoint: %w", err)
		}
		away := uploadsFrom(all, list)
		if len(away) == 0 {
			return nil
		}
		p.showProgress(&rpc.Progress{Phase: "staged", Text: strings.Join(away, ", ")})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// uploadsFrom returns the checkpoints of a list that are on their way from nodes to the store, and are not lost.
func uploadsFrom(nodes []nodeState, list []*rpc.Checkpoint) []string {
	var away []string
	for _, c := range list {
		isOn := slices.ContainsFunc(nodes, func(n nodeState) bool { return slices.Contains(c.GetNodes(), n.name) })
		if c.GetState() == "uploading" && c.GetProblem() == "" && isOn {
			away = append(away, c.GetId())
		}
	}
	return away
}

// nodeState is sinfo's answer about a node.
type nodeState struct {
	name, state, reason string
}

func (a drainCommand) printNodes(ctx context.Context, nodes string) error {
	all, err := a.slurm.nodeStates(ctx, nodes)
	if err != nil {
		return err
	}
	if a.json {
		list := make([]map[string]string, len(all))
		for i, n := range all {
			list[i] = map[string]string{"node": n.name, "state": n.state, "reason": n.reason}
		}
		a.printJSON(map[string]any{"nodes": list})
		return nil
	}
	rows := [][]string{{"NODE", "STATE", "REASON"}}
	for _, n := range all {
		rows = append(rows, []string{n.name, n.state, orDefault(n.reason, "-")})
	}
	printTable(a.stdout, rows)
	return nil
}

// nodeStates lists nodes, each once.
func (s slurm) nodeStates(ctx context.Context, nodes string) ([]nodeState, error) {
	out, err := s.runCommand(ctx, "sinfo", "--noheader", "--Node", "--nodes="+nodes, "--format=%N|%T|%E")
	if err != nil {
		return nil, err
	}
	var all []nodeState
	for l := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(l), "|", 3)
		if len(f) != 3 || len(all) > 0 && all[len(all)-1].name == f[0] { // once for each partition
			continue
		}
		if f[2] == "none" {
			f[2] = ""
		}
		all = append(all, nodeState{f[0], f[1], f[2]})
	}
	return all, nil
}

// updateNodes changes nodes with the rights of the caller.
func (s slurm) updateNodes(ctx context.Context, nodes string, changes ...string) error {
	_, err := s.runCommand(ctx, "scontrol", append([]string{"update", "NodeName=" + nodes}, changes...)...)
	switch {
	case errors.Is(err, errNoAdministrator):
		return fmt.Errorf("drain: %w: Slurm lets only administrators do that", rpc.ErrDenied)
	case errors.Is(err, errUnknownNode):
		return &rpc.Error{Kind: rpc.ErrInvalid, Text: fmt.Sprintf("%.80q: Slurm knows no such nodes", nodes), Hint: "sinfo --Node lists the nodes"}
	case errors.Is(err, errNodeState):
		return nil
	}
	return err
}
