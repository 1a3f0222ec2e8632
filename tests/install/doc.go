// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package install tries a first installation: it types the commands of docs/install.md, which it reads
// from there, in a plain cluster, makes the mistakes of a first week on the way, and compares what the
// daemons and doctor say to each. The tests need root and run under the build tag "install".
package install
