// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package install tests a first installation: the tests run the commands of docs/install.md, which they read
// from that file, in a plain cluster, make the mistakes of a first week on the way, and compare the messages
// of the daemons and of doctor with the expected messages. The tests need root and the build tag "install".
package install
