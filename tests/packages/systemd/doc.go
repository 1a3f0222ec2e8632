// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd has the tests that run in a virtual machine with systemd as its first process. tests/packages starts
// the machine (TestUnderSystemd). The tests run under the build tag "guest", as root, and install packages.
package systemd
