// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// doctorCommand is singctl doctor.
type doctorCommand struct{ *app }

func (a doctorCommand) buildCobra() *cobra.Command {
	var all, verbose, controller bool
	c := &cobra.Command{
		Use: "doctor [--node NODE,… | --all | --controller] [--verbose]", Short: "Say what nodes can do, what they lack, and what to do about it",
		Long: `doctor lets the daemons of nodes look at themselves: kernel, CRIU, Slurm's configuration, munge,
the shared folder. Each line that is not "ok" says what an administrator does about it.
Without flags it is the node on which singctl runs. Of several nodes only what is not "ok" is
printed, where they differ in what has to be the same, and a summary; --verbose prints all.
For operators, each node writes 64 MiB into the shared or staging folder, and deletes that, to see how
fast that is, until it has captured a job; 16 nodes are asked at a time.

--controller looks at preemptd instead: may it operate, which proxyds answer, policies, database.
SINGULARITY_SLURM_CONTROLLER names where it listens.

While slurmctld does not answer, nodes and addresses are those of slurm.conf of this host: SLURM_CONF,
or where Slurm's packages have it.

The exit code is 8 if a node fails, 6 if a daemon does not answer.`,
		Args: argumentCount(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			switch {
			case all && len(a.nodes) > 0, controller && (all || len(a.nodes) > 0):
				return rpc.Errorf(rpc.ErrInvalid, "--all, --node and --controller exclude each other")
			case controller:
				return a.examineController(ctx)
			}
			nodes, err := a.listNodes(ctx, all)
			if err != nil {
				return err
			}
			return a.examineNodes(ctx, nodes, verbose || len(nodes) == 1)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "ask every node that Slurm knows")
	c.Flags().BoolVar(&controller, "controller", false, "look at preemptd")
	c.Flags().BoolVar(&verbose, "verbose", false, "print of several nodes what is ok too")
	return c
}

// examineController asks preemptd and prints the faults that preemptd found.
func (a doctorCommand) examineController(ctx context.Context) error {
	return a.askController(ctx, func(c *control.Client) error {
		reply, err := c.Doctor(ctx)
		if err != nil {
			return err
		}
		worst := control.Finding_OK
		for _, f := range reply.GetFindings() {
			worst = max(worst, f.GetLevel())
		}
		if a.json {
			a.printMessage(reply)
		} else {
			fmt.Fprintf(a.stdout, "controller on %s: preemptd %s\n", safeLine(reply.GetHost()), safeLine(reply.GetVersion()))
			for _, f := range reply.GetFindings() {
				a.printFinding(rpc.Finding_Level(f.GetLevel()), f.GetName(), f.GetFound(), f.GetNeeds(), f.GetDo())
			}
		}
		if worst == control.Finding_FAIL {
			return errFound
		}
		return nil
	})
}

// examinedNode is a node that doctor asks; without an address, Slurm is asked for that first.
type examinedNode struct{ name, address string }

// listNodes returns the nodes to ask: all, else the nodes that the caller has named, else this node. While slurmctld does
// not answer, they are as slurm.conf of this host has them, and doctor says so.
func (a doctorCommand) listNodes(ctx context.Context, all bool) ([]examinedNode, error) {
	names := a.nodes
	if !all && len(names) == 0 {
		names = []string{a.here}
	}
	var first node
	var silence error
	if all {
		names, silence = a.slurm.nodeNames(ctx, false)
	} else {
		first, silence = a.slurm.nodeAddress(ctx, names[0]) // an unknown name is told when the node is asked
	}
	if isSilence(silence) {
		return a.listNodesOfFile(ctx, names, silence)
	}
	if all && silence != nil {
		return nil, silence
	}
	nodes := make([]examinedNode, len(names))
	for i, name := range names {
		nodes[i].name = name
	}
	if first.address != "" {
		nodes[0] = examinedNode(first)
	}
	return nodes, nil
}

// listNodesOfFile is listNodes without slurmctld; names are the nodes to ask, nil for all. It returns silence, the
// error of Slurm's command, where no slurm.conf lists nodes.
func (a doctorCommand) listNodesOfFile(ctx context.Context, names []string, silence error) ([]examinedNode, error) {
	known, file, err := a.slurm.nodesOfFile(ctx)
	if err != nil {
		fmt.Fprintf(a.stderr, "without slurmctld the nodes are not known: %s\n", safeLine(err.Error()))
		return nil, silence
	}
	var nodes []examinedNode
	for _, n := range known {
		if names == nil || slices.Contains(names, n.name) {
			nodes = append(nodes, examinedNode(n))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(nodes, func(n examinedNode) bool { return n.name == name }) {
			return nil, rpc.Errorf(rpc.ErrInvalid, "node %.80q: slurmctld does not answer, and %s has none of that name", name, file)
		}
	}
	fmt.Fprintf(a.stderr, "slurmctld does not answer: the nodes are as %s has them\n", safeLine(file))
	return nodes, nil
}

// examination is the answer of a node.
type examination struct {
	reply *rpc.DoctorReply
	err   error
}

// examineNodes asks nodes side by side and prints the answers in order. whole says that findings
// that are ok are printed too.
func (a doctorCommand) examineNodes(ctx context.Context, nodes []examinedNode, whole bool) error {
	const atOnce = 16
	answers := make([]examination, len(nodes))
	names := make([]string, len(nodes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, n := range nodes {
		names[i] = n.name
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i] = a.examineNode(ctx, n)
		})
	}
	wg.Wait()
	for _, e := range answers { // a mistyped name is reported alone
		if e.err != nil && (len(answers) == 1 || errors.Is(e.err, rpc.ErrInvalid)) {
			return e.err
		}
	}
	return a.printDoctor(names, answers, whole)
}

func (a doctorCommand) examineNode(ctx context.Context, asked examinedNode) examination {
	n, err := node(asked), error(nil)
	if n.address == "" {
		if n, err = a.slurm.nodeAddress(ctx, n.name); err != nil {
			return examination{err: err}
		}
	}
	var e examination
	e.err = a.callNode(n, func(c *rpc.Client) error {
		e.reply, err = c.Doctor(ctx)
		return err
	})
	return e
}

func (a doctorCommand) printDoctor(names []string, answers []examination, whole bool) error {
	differences := findDifferences(answers)
	worst := map[rpc.Finding_Level]int{} // how many nodes have this level for the worst that is wrong with them
	var unanswered []string
	var nodes []any
	for i, e := range answers {
		if e.err != nil {
			unanswered = append(unanswered, names[i])
			nodes = append(nodes, map[string]any{"node": names[i], "error": e.err.Error()})
			if !a.json {
				said := strings.TrimPrefix(e.err.Error(), "node "+names[i]+": ")
				fmt.Fprintf(a.stdout, "node %s: %s\n", safeLine(names[i]), a.inColour(red, safeLine(said)))
			}
			continue
		}
		nodes = append(nodes, jsonObject(e.reply.ProtoReflect()))
		level := worstLevel(e.reply)
		worst[max(level, differenceLevel(differences, e.reply.GetNode()))]++
		if !a.json && (whole || level != rpc.Finding_OK) {
			a.printFindings(e.reply, whole)
		}
	}
	if !a.json {
		for _, d := range differences {
			a.printDifference(d)
		}
	}
	switch {
	case a.json:
		report := map[string]any{"nodes": nodes}
		if len(answers) > 1 {
			report["differences"] = differencesInJSON(differences)
		}
		a.printJSON(report)
	case !whole:
		fmt.Fprintf(a.stdout, "%s: %d ok, %d with warnings, %d failing, %d without an answer\n", formatPlural(int64(len(names)), "node"),
			worst[rpc.Finding_OK], worst[rpc.Finding_WARN], worst[rpc.Finding_FAIL], len(unanswered))
	}
	switch {
	case unanswered != nil:
		return rpc.Errorf(rpc.ErrUnreachable, "%d of %s gave no answer: %s", len(unanswered), formatPlural(int64(len(answers)), "node"), strings.Join(unanswered, ", "))
	case worst[rpc.Finding_FAIL] > 0:
		return errFound
	}
	return nil
}

// worstLevel is FAIL if any finding of a node is, else WARN if any is, else OK.
func worstLevel(r *rpc.DoctorReply) rpc.Finding_Level {
	worst := rpc.Finding_OK
	for _, f := range r.GetFindings() {
		switch f.GetLevel() {
		case rpc.Finding_FAIL:
			return rpc.Finding_FAIL
		case rpc.Finding_WARN:
			worst = rpc.Finding_WARN
		}
	}
	return worst
}

// levelWords are the words printed for a finding.
var levelWords = map[rpc.Finding_Level]string{rpc.Finding_OK: "ok", rpc.Finding_WARN: "WARN", rpc.Finding_FAIL: "FAIL"}

var levelColours = map[rpc.Finding_Level]colour{rpc.Finding_OK: green, rpc.Finding_WARN: yellow, rpc.Finding_FAIL: red}

// levelText is the word of a level in a column of its own.
func (a *app) levelText(level rpc.Finding_Level) string {
	return a.inColour(levelColours[level], fmt.Sprintf("%-4s", levelWords[level]))
}

func (a doctorCommand) printFindings(r *rpc.DoctorReply, whole bool) {
	fmt.Fprintf(a.stdout, "node %s: proxyd %s\n", safeLine(r.GetNode()), safeLine(r.GetVersion()))
	for _, f := range r.GetFindings() {
		if !whole && f.GetLevel() == rpc.Finding_OK {
			continue
		}
		a.printFinding(f.GetLevel(), f.GetName(), f.GetFound(), f.GetNeeds(), f.GetDo())
	}
}

func (a doctorCommand) printFinding(level rpc.Finding_Level, name, found, needs, do string) {
	fmt.Fprintf(a.stdout, "  %s  %-18s  %s\n", a.levelText(level), safeLine(name), safeLine(found))
	if level != rpc.Finding_OK {
		fmt.Fprintf(a.stdout, "%28sneeds: %s\n", "", safeLine(needs))
		fmt.Fprintf(a.stdout, "%28sdo:    %s\n", "", safeLine(do))
	}
}
