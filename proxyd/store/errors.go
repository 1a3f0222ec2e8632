// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
)

// Errors that errors of this package wrap; see also the errors of Backend.
var (
	// ErrDamaged matches every *DamagedError.
	ErrDamaged = errors.New("damaged")
	// ErrRefused matches every *RefusedError.
	ErrRefused = errors.New("refused")
	// ErrMAC means that a manifest's seal was not made with this cluster's key.
	ErrMAC = errors.New("seal does not match the cluster's key")
	// ErrPlace means that a manifest lies in the place of another manifest.
	ErrPlace = errors.New("manifest lies in the place of another")
	// ErrFenced means that other processes have declared this claim's owner dead; its chunks may
	// be collected, and its owner can no longer commit.
	ErrFenced = errors.New("claim lost: taken for dead")
	// ErrClosed means that a Writer, Stream, Reader or Reservation has ended.
	ErrClosed = errors.New("closed")
	// ErrAborted is the failure of a Writer after Abort.
	ErrAborted = errors.New("aborted")
	// ErrBusy means that another collector is at work.
	ErrBusy = errors.New("another collector is at work")
	// ErrFormat means that the folder holds a store of an unknown version.
	ErrFormat = errors.New("unknown store format")
)

// DamagedError means that bytes in the store are not those that were written.
type DamagedError struct {
	Object string // "chunk 3fa9…", "manifest mini/812/3"
	Reason string // "hash mismatch"
}

func (e *DamagedError) Error() string { return e.Object + ": " + e.Reason }

// Is makes errors.Is(err, ErrDamaged) true.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// RefusedError means that a manifest or key must not be trusted. A RefusedError wraps ErrMAC,
// ErrPlace or ErrForeign.
type RefusedError struct {
	Object string // "manifest mini/812/3", "key /etc/…"
	Why    error
}

func (e *RefusedError) Error() string { return e.Object + ": refused: " + e.Why.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Why }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// SpaceError means that a reservation does not fit. A SpaceError wraps no other error: the caller decides how to go on.
type SpaceError struct {
	Free     uint64 // free bytes of the file system
	Reserved uint64 // of these, reserved by other processes
	Need     uint64
}

func (e *SpaceError) Error() string {
	free := e.Free - min(e.Free, e.Reserved)
	return fmt.Sprintf("%s free, %s needed", formatSize(free), formatSize(e.Need))
}

// formatSize writes n in the largest unit of which n has at least 1.
func formatSize(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	f := float64(n)
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 || f == float64(uint64(f)) || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
