// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	const passes = `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	const fails = `{"Action":"output","Package":"p","Test":"TestB","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Elapsed":0.1}
`
	const doesNotBuild = `{"Action":"output","Package":"p","Output":"x.go:1: no\n"}
{"Action":"fail","Package":"p","Elapsed":0}
`
	const skips = `{"Action":"output","Package":"p","Test":"TestC","Output":"needs a GPU\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
`
	cases := []struct {
		name, in string
		want     count
		says     string
		saysNot  string
	}{
		{"pass", passes, count{passed: 1}, "ok   p", "quiet"},
		{"fail", fails, count{failed: 1}, "the reason", ""},
		{"does not build", doesNotBuild, count{failed: 1}, "x.go:1: no", ""},
		{"skip says why", skips, count{skipped: 1}, "needs a GPU", ""},
		{"all", passes + fails + skips, count{1, 1, 1}, "FAIL p TestB", "quiet"},
		{"other output", "panic: no\n" + passes, count{passed: 1}, "panic: no", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var said strings.Builder
			tl := newTally(&said)
			tl.read(strings.NewReader(c.in))
			if tl.count != c.want {
				t.Errorf("counted %+v, want %+v", tl.count, c.want)
			}
			if !strings.Contains(said.String(), c.says) {
				t.Errorf("said %q, want %q in it", said.String(), c.says)
			}
			if c.saysNot != "" && strings.Contains(said.String(), c.saysNot) {
				t.Errorf("said %q, do not want %q in it", said.String(), c.saysNot)
			}
		})
	}
}

func TestRunCountsACommand(t *testing.T) {
	if got := run("true", "true"); got != (count{passed: 1}) {
		t.Errorf("true: %+v", got)
	}
	if got := run("false", "exit 3"); got != (count{failed: 1}) {
		t.Errorf("exit 3: %+v", got)
	}
}
