// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"strings"
)

// Explain writes all keys with their defaults and what they mean. What it writes is a
// configuration file in which everything is commented out but the keys that must be set.
func Explain(w io.Writer) error {
	return explain(w, func(k key) (value, note string, set bool) {
		if k.name == "shared" {
			return "/shared/singularity", "must be set", true
		}
		return k.value, "", false
	})
}

// Explain writes all keys as they are in effect, each with where its value comes from.
// What it writes is a configuration file with the same effect.
func (c *Config) Explain(w io.Writer) error {
	return explain(w, func(k key) (value, note string, set bool) {
		o := c.origins[k.name]
		return o.value, "from " + o.where, o.where != "default"
	})
}

func explain(w io.Writer, valueOf func(key) (value, note string, set bool)) error {
	var b strings.Builder
	section := ""
	for _, k := range keys {
		name, indent := k.name, ""
		in, last, nested := strings.Cut(k.name, ".")
		if nested {
			name, indent = last, "  "
			if in != section {
				// An empty section is no section: null has no keys that could be wrong.
				fmt.Fprintf(&b, "\n%s:\n", in)
			}
			section = in
		} else {
			section = ""
		}
		value, note, set := valueOf(k)
		b.WriteString("\n")
		for line := range strings.SplitSeq(k.what, "\n") {
			fmt.Fprintf(&b, "%s# %s\n", indent, line)
		}
		if note != "" {
			fmt.Fprintf(&b, "%s# (%s; %s)\n", indent, note, environment(k.name))
		} else {
			fmt.Fprintf(&b, "%s# (%s)\n", indent, environment(k.name))
		}
		mark := "#"
		if set {
			mark = ""
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n", indent, mark, name, quoted(value))
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// quoted writes a value so that YAML reads the same text back.
func quoted(s string) string {
	plain := s != ""
	for _, r := range s {
		plain = plain && (r == '/' || r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if plain && s[0] != '-' && s[0] != '.' {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
