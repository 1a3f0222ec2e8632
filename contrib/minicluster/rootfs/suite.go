// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"fmt"
	"strings"
)

// Suite is a Debian release that a cluster can run, with the versions that it brings. Lookup returns
// the values.
type Suite struct {
	Name  string // "forky"
	Slurm string // "26.05"
	Torch string // PyTorch's version where Options.Torch asks for PyTorch: "2.14"
	CRIU  string // the version installed: "4.2"
	// CompilesCRIU says that this CRIU is compiled for the suite (contrib/criu), because the suite's
	// own does not work on the kernels in use: bookworm's 3.17 fails on today's vDSO, trixie's 4.1
	// cannot dump TCP sockets.
	CompilesCRIU bool
	// Corpus says that Options.Corpus is possible: the suite has all these packages.
	Corpus bool

	// expired says that the suite's Release file may be past its Valid-Until,
	// as a release in development is between two pushes of a mirror.
	expired bool
}

// suites are all suites, newest first: the first is the default.
var suites = []Suite{
	{Name: "forky", Slurm: "26.05", CRIU: "4.2", Torch: "2.14", Corpus: true, expired: true},
	{Name: "trixie", Slurm: "24.11", CRIU: "4.2", CompilesCRIU: true, Torch: "2.6"},
	{Name: "bookworm", Slurm: "22.05", CRIU: "4.2", CompilesCRIU: true, Torch: "1.13"},
}

// Lookup returns the suite called name, or an *UnknownSuiteError.
func Lookup(name string) (Suite, error) {
	for _, s := range suites {
		if s.Name == name {
			return s, nil
		}
	}
	return Suite{}, &UnknownSuiteError{Name: name}
}

// UnknownSuiteError is a suite name that is not in the table. Its text lists the names in the
// table.
type UnknownSuiteError struct{ Name string }

func (e *UnknownSuiteError) Error() string {
	known := make([]string, len(suites))
	for i, s := range suites {
		known[i] = fmt.Sprintf("%s (Slurm %s)", s.Name, s.Slurm)
	}
	return fmt.Sprintf("unknown suite %q: known are %s", e.Name, strings.Join(known, ", "))
}

// NoCorpusError is the error for Options.Corpus and a suite that lacks some of the packages.
type NoCorpusError struct{ Suite string }

func (e *NoCorpusError) Error() string {
	return fmt.Sprintf("suite %s has not all programs of the corpus: %s has", e.Suite, suites[0].Name)
}
