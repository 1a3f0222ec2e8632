// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import "golang.org/x/sys/unix"

const (
	nativeArch       = unix.AUDIT_ARCH_AARCH64
	firstForeignCall = 1 << 30
)

// oldCalls are calls to be refused that newer architectures do not have.
var oldCalls = []uintptr{unix.SYS_KEXEC_FILE_LOAD}
