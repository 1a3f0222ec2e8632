// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// difference is a property that has to be the same on all nodes, and is not.
type difference struct {
	what   string
	level  rpc.Finding_Level
	do     string
	groups []sameNodes // the largest first
}

// sameNodes are the nodes with the same fingerprint.
type sameNodes struct {
	fingerprint string
	nodes       []string
}

// comparisons has the meaning of a difference in a finding. A finding that is not in the table is a warning.
var comparisons = map[string]struct {
	level rpc.Finding_Level
	do    string
}{
	"key":           {rpc.Finding_FAIL, "copy the cluster's key to the nodes that differ: what one node seals the other refuses, and the job is held"},
	"shared folder": {rpc.Finding_FAIL, "mount the same file system on all nodes"},
	"slurm: plugin": {rpc.Finding_WARN, "install the same build of the plugin on all nodes"},
	"configuration": {rpc.Finding_WARN, "copy proxyd.yaml to the nodes that differ, and systemctl restart proxyd there; proxyd config shows what it has"},
	"version":       {rpc.Finding_WARN, "install the same release on all nodes, and systemctl restart proxyd"},
}

// findDifferences compares the fingerprints of nodes, and the versions of their daemons.
func findDifferences(answers []examination) []difference {
	byWhat := map[string]map[string][]string{} // nodes by fingerprint
	add := func(what, fingerprint, node string) {
		if fingerprint == "" {
			return
		}
		if byWhat[what] == nil {
			byWhat[what] = map[string][]string{}
		}
		byWhat[what][fingerprint] = append(byWhat[what][fingerprint], node)
	}
	for _, e := range answers {
		if e.err != nil {
			continue
		}
		add("version", e.reply.GetVersion(), e.reply.GetNode())
		for _, f := range e.reply.GetFindings() {
			add(f.GetName(), f.GetFingerprint(), e.reply.GetNode())
		}
	}
	var all []difference
	for _, what := range slices.Sorted(maps.Keys(byWhat)) {
		if len(byWhat[what]) < 2 {
			continue
		}
		d := difference{what: what, level: rpc.Finding_WARN, do: "make it the same on all nodes"}
		if c, known := comparisons[what]; known {
			d.level, d.do = c.level, c.do
		}
		for fingerprint, nodes := range byWhat[what] {
			d.groups = append(d.groups, sameNodes{fingerprint, nodes})
		}
		slices.SortFunc(d.groups, func(a, b sameNodes) int {
			return cmp.Or(len(b.nodes)-len(a.nodes), strings.Compare(a.fingerprint, b.fingerprint))
		})
		all = append(all, d)
	}
	return all
}

// differenceLevel is the level of the worst difference by which a node is not as most others are. Where no group of
// nodes is the largest, it is not known which are right, and every node counts as different.
func differenceLevel(all []difference, node string) rpc.Finding_Level {
	worst := rpc.Finding_OK
	for _, d := range all {
		for i, g := range d.groups {
			isMost := i == 0 && len(g.nodes) > len(d.groups[1].nodes)
			if !isMost && slices.Contains(g.nodes, node) {
				worst = max(worst, d.level)
			}
		}
	}
	return worst
}

func (a *app) printDifference(d difference) {
	var groups []string
	for _, g := range d.groups {
		groups = append(groups, safeLine(g.fingerprint)+" on "+safeLine(shortList(g.nodes)))
	}
	fmt.Fprintf(a.stdout, "nodes differ\n  %s  %-18s  %s\n%28sdo:    %s\n", a.levelText(d.level), safeLine(d.what), strings.Join(groups, "; "), "", d.do)
}

// shortList names a few nodes, and counts the rest.
func shortList(nodes []string) string {
	const most = 8
	if len(nodes) <= most {
		return strings.Join(nodes, ",")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ","), len(nodes)-most)
}

func differencesInJSON(all []difference) []any {
	list := []any{}
	for _, d := range all {
		groups := map[string]any{}
		for _, g := range d.groups {
			groups[g.fingerprint] = g.nodes
		}
		list = append(list, map[string]any{"what": d.what, "level": strings.ToLower(levelWords[d.level]), "do": d.do, "nodes": groups})
	}
	return list
}
