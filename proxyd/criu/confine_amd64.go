// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import "golang.org/x/sys/unix"

const (
	nativeArch       = unix.AUDIT_ARCH_X86_64
	firstForeignCall = 1 << 30 // the first call of x32
)

// oldCalls are calls to be refused that newer architectures do not have.
var oldCalls = []uintptr{
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_MKNOD, unix.SYS_LINK,
	unix.SYS_SYMLINK, unix.SYS_RENAME, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_CHMOD,
}
