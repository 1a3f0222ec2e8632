// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"strings"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

func TestHosts(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"n1":                 "n1",
		"a,b":                "a b",
		"n[1-3,5]":           "n1 n2 n3 n5",
		"gpu[008-011]-ib,x7": "gpu008-ib gpu009-ib gpu010-ib gpu011-ib x7",
		"r[1-2]n[1-2]":       "r1n1 r1n2 r2n1 r2n2",
	} {
		got, err := slurmrest.Hosts(in)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("Hosts(%q) = %v, %v", in, got, err)
		}
	}
	for in, said := range map[string]string{
		"n[1-":              "not closed",
		"n[3-1]":            `"3-1": want a range`,
		"n[a]":              `"a": want a range`,
		"n1]":               "want names like",
		"a]n[1-2]":          "not opened",
		"n[1-99999999]":     "at most",
		"n[1-300]m[1-300]o": "at most",
	} {
		if got, err := slurmrest.Hosts(in); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("Hosts(%q): %v names, error %v; want another error", in, len(got), err)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("a,n[01-03,7]x")
	f.Fuzz(func(t *testing.T, in string) {
		names, err := slurmrest.Hosts(in)
		if err == nil && len(names) > 1<<16 {
			t.Errorf("Hosts gave %d names, more than maxHosts", len(names))
		}
	})
}
