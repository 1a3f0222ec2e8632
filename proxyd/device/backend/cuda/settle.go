// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// maxAttempts is how often a process starts again to have its addresses free.
const maxAttempts = 16

// Settle has this process start again without address space randomisation, so that memory that the driver places by
// itself is in the same place each time, and again until the addresses of spaces are free. Settle must be called first
// of all. attempt is 0 at first; the process that is started has the argument that name makes of the next number.
// Settle returns nil if the process need not start again, or an error, which wraps ErrAddresses if the last attempt did
// not help.
func Settle(attempt int, name func(attempt int) string) error {
	const addrNoRandomize, query = 0x0040000, 0xffffffff
	// The persona is a thread's, and the program that is executed has that of the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, _, errno := unix.Syscall(unix.SYS_PERSONALITY, query, 0, 0)
	if errno != 0 {
		return fmt.Errorf("personality: %w", errno)
	}
	taken, err := Taken()
	switch {
	case err != nil:
		return err
	case now&addrNoRandomize != 0 && taken == "":
		return nil
	case attempt >= maxAttempts:
		return fmt.Errorf("%s, also after %d attempts: %w", taken, attempt, ErrAddresses)
	}
	if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, now|addrNoRandomize, 0, 0); errno != 0 {
		return fmt.Errorf("addresses cannot be made predictable: personality: %w", errno)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return fmt.Errorf("start again: %w", unix.Exec(self, append(slices.Clone(os.Args), name(attempt+1)), os.Environ()))
}

// Taken describes the mapping that lies where the first spaces of a process will be, or returns "".
func Taken() (string, error) {
	return findMapping(uint64(backend.DefaultBase/2), uint64(2*backend.DefaultBase))
}

// findMapping describes the first mapping of this process that lies between two addresses, or returns "".
func findMapping(first, last uint64) (string, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && from < last && to > first {
			return "there is something at " + strings.TrimSpace(line), nil
		}
	}
	return "", nil
}
