// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// Explain writes all keys with their defaults and meanings. The text is a configuration file in
// which all keys but those that must be set are commented out.
func Explain(w io.Writer) error {
	return keys.ExplainEach(w, func(k *table.Key[Config]) (value, note string, set bool) {
		if k.Name == "shared" {
			return "/shared/singularity", "must be set", true
		}
		return k.Default, "", false
	})
}

// Explain writes all keys as they are in effect, each with the source of its value. The text is a
// configuration file with the same effect.
func (c *Config) Explain(w io.Writer) error { return keys.Explain(w, c.values) }

// Reference returns all keys, each with its text for the manual.
func Reference() [][2]string { return keys.Reference() }
