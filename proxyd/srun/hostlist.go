// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"slices"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// expandHosts returns the names that a hostlist like "a,n[1-3,5]" stands for, in its order. Where
// Slurm takes commas, srun's users write white space and semicolons, too.
func expandHosts(list string) ([]string, error) {
	return slurmrest.Hosts(strings.Join(splitList(list), ","))
}

// splitList splits at the commas, white space and semicolons that are not in brackets.
func splitList(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ',', ';', ' ', '\t', '\n':
			return depth <= 0
		}
		return false
	})
}

// translateHosts replaces the names of nodes in a hostlist. If no name changes, or list is no hostlist, list itself is
// returned. Unless keepDuplicates is set, each name is there once: two nodes of the first start may be the same node
// today.
func translateHosts(list string, nodes map[string]string, keepDuplicates bool) string {
	names, err := expandHosts(list)
	if err != nil {
		return list
	}
	var translated []string
	changed := false
	for _, name := range names {
		if now, ok := nodes[name]; ok && now != name {
			name, changed = now, true
		}
		if keepDuplicates || !slices.Contains(translated, name) {
			translated = append(translated, name)
		}
	}
	if !changed {
		return list
	}
	return strings.Join(translated, ",")
}

// translateHostFile replaces the names of nodes in a file of Slurm's: each line has a hostlist,
// some with "*COUNT" behind a name, and comments after "#".
func translateHostFile(b []byte, nodes map[string]string) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		text, _, _ := strings.Cut(line, "#")
		for i, list := range splitList(strings.TrimSpace(text)) {
			if i > 0 {
				out.WriteByte(',')
			}
			name, count, times := strings.Cut(list, "*")
			out.WriteString(translateHosts(name, nodes, true))
			if times {
				out.WriteString("*" + count)
			}
		}
		out.WriteByte('\n')
	}
	return []byte(out.String())
}
