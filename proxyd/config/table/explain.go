// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"fmt"
	"io"
	"strings"
)

// Explain writes all keys with their values, each with its meaning and its source. The output is a configuration file
// with the same effect: a key that has its default is commented out.
func (t *Table[C]) Explain(w io.Writer, values Values) error {
	return t.ExplainEach(w, func(k *Key[C]) (value, note string, set bool) {
		v := values[k.Name]
		return v.Text, "from " + v.Source, v.Source != FromDefault
	})
}

// ExplainEach writes all keys as Explain does, with a value and a note of the caller's for each. A key that is not set
// is commented out.
func (t *Table[C]) ExplainEach(w io.Writer, valueOf func(*Key[C]) (value, note string, set bool)) error {
	var b strings.Builder
	section := ""
	for _, k := range t.Keys {
		name, indent := k.Name, ""
		if in, key, nested := strings.Cut(k.Name, "."); nested {
			name, indent = key, "  "
			if in != section {
				// A section in which all is commented out is null, and null is accepted as an empty section.
				fmt.Fprintf(&b, "\n%s:\n", in)
			}
			section = in
		} else {
			section = ""
		}
		value, note, set := valueOf(&k)
		b.WriteString("\n")
		for line := range strings.SplitSeq(k.Meaning, "\n") {
			fmt.Fprintf(&b, "%s# %s\n", indent, line)
		}
		if note != "" {
			note += "; "
		}
		mark := "#"
		if set {
			mark = ""
		}
		fmt.Fprintf(&b, "%s# (%s%s)\n%s%s%s: %s\n", indent, note, t.Variable(k.Name), indent, mark, name, Quote(value))
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// Quote writes a value so that YAML reads the same text back. Words, numbers and paths stay without quotes.
func Quote(s string) string {
	plain := s != ""
	for _, r := range s {
		plain = plain && (r == '/' || r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if plain && s[0] != '-' && s[0] != '.' {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
