// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import "io"

// Explain writes all keys as they are in effect, each with its meaning and the source of its
// value. The text is a configuration file with the same effect.
func (c *Config) Explain(w io.Writer) error { return keys.Explain(w, c.values) }

// Reference returns all keys with their texts in the manual.
func Reference() [][2]string { return keys.Reference() }
