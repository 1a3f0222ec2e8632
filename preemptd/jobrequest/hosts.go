// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package jobrequest

import (
	"slices"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// SameHosts reports whether two host lists name the same hosts.
func SameHosts(a, b string) bool {
	if a == b {
		return true
	}
	x, y := HostNames(a), HostNames(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// HostNames returns the names in a host list. A text that is not a host list is returned as a name.
func HostNames(list string) []string {
	names, err := slurmrest.Hosts(list)
	if err != nil {
		return []string{list}
	}
	return names
}

func unionOf(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
