// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Settle has this process start again without address space randomisation, unless it has none: where the driver puts what it
// allocates by itself is then the same each time. It must be called before anything else is done. It returns if nothing
// had to be done, or with an error.
func Settle() error {
	const addrNoRandomize, query = 0x0040000, 0xffffffff
	// The persona is a thread's, and the program that is executed has that of the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, _, errno := unix.Syscall(unix.SYS_PERSONALITY, query, 0, 0)
	if errno != 0 {
		return fmt.Errorf("personality: %w", errno)
	}
	if now&addrNoRandomize != 0 {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, now|addrNoRandomize, 0, 0); errno != 0 {
		return fmt.Errorf("addresses cannot be made predictable: personality: %w", errno)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return fmt.Errorf("start again: %w", unix.Exec(self, os.Args, os.Environ()))
}
