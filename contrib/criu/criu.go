// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package criu has the script that makes a package of CRIU for Debian releases with a CRIU that does
// not work on today's kernels. Sites run the script as contrib/criu/build; in minicluster
// the script is embedded.
package criu

import _ "embed"

// Script is the text of contrib/criu/build; the first lines of the script explain its use.
//
//go:embed build
var Script string
