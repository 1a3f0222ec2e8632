// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"strings"
)

// Explain writes all keys as they are in effect, each with what it means and where its
// value comes from. What it writes is a configuration file with the same effect.
func (c *Config) Explain(w io.Writer) error {
	var b strings.Builder
	section := ""
	for _, k := range keys {
		last, indent := k.name, ""
		if in, name, nested := strings.Cut(k.name, "."); nested {
			last, indent = name, "  "
			if in != section {
				fmt.Fprintf(&b, "\n%s:\n", in)
			}
			section = in
		} else {
			section = ""
		}
		o, mark := c.origins[k.name], ""
		if o.where == "default" {
			mark = "#"
		}
		fmt.Fprintf(&b, "\n%s# %s\n%s# (from %s; %s)\n%s%s%s: %s\n", indent, k.what, indent, o.where, Environment(k.name), indent, mark, last, quoted(o.value))
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// quoted writes a value so that YAML reads the same text back.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
