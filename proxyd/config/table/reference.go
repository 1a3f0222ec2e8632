// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"fmt"
	"strings"
)

// Reference returns all keys, each with its text for a manual: meaning, default, variable, and whether
// a change waits for the next start.
func (t *Table[C]) Reference() [][2]string {
	all := make([][2]string, len(t.Keys))
	for i := range t.Keys {
		k := &t.Keys[i]
		text := strings.ReplaceAll(k.Meaning, "\n", " ")
		if k.Default != "" {
			text += " Default: " + k.Default + "."
		}
		if k.AtStart {
			text += " Read at the start."
		}
		all[i] = [2]string{k.Name, fmt.Sprintf("%s Variable: %s.", text, t.Variable(k.Name))}
	}
	return all
}
