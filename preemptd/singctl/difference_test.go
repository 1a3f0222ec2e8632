// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestSummaryCountsDifferences: a node that is sound by itself, and not as the other nodes are, is not counted as ok.
func TestSummaryCountsDifferences(t *testing.T) {
	node := func(name, version, key string) examination {
		return examination{reply: &rpc.DoctorReply{Node: name, Version: version, Findings: []*rpc.Finding{
			{Name: "key", Level: rpc.Finding_OK, Fingerprint: key},
		}}}
	}
	for name, c := range map[string]struct {
		nodes []examination
		want  string
		err   error
	}{
		"alike":           {[]examination{node("n1", "1", "k"), node("n2", "1", "k")}, "2 nodes: 2 ok, 0 with warnings, 0 failing", nil},
		"one differs":     {[]examination{node("n1", "1", "k"), node("n2", "1", "k"), node("n3", "1", "x")}, "3 nodes: 2 ok, 0 with warnings, 1 failing", errFound},
		"as many as not":  {[]examination{node("n1", "1", "k"), node("n2", "1", "x")}, "2 nodes: 0 ok, 0 with warnings, 2 failing", errFound},
		"another release": {[]examination{node("n1", "1", "k"), node("n2", "2", "k"), node("n3", "1", "k")}, "3 nodes: 2 ok, 1 with warnings, 0 failing", nil},
		"both":            {[]examination{node("n1", "1", "k"), node("n2", "2", "x"), node("n3", "1", "k")}, "3 nodes: 2 ok, 0 with warnings, 1 failing", errFound},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			names := make([]string, len(c.nodes))
			err := doctorCommand{&app{stdout: &out}}.printDoctor(names, c.nodes, false)
			if !strings.Contains(out.String(), c.want) || !errors.Is(err, c.err) {
				t.Errorf("%v\n%s\nwant %v and: %s", err, out.String(), c.err, c.want)
			}
		})
	}
}
