// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package localsock

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// ToldError is the error of another process of this node, which sent the error's text and number. errors.Is finds the
// number, and no other error: fs.ErrNotExist is about a file of this process.
type ToldError struct {
	Text  string        `json:"text"`
	Errno syscall.Errno `json:"errno,omitempty"`
}

func (e *ToldError) Error() string { return e.Text }

// Is implements the interface of errors.Is.
func (e *ToldError) Is(target error) bool { return target == error(e.Errno) }

// FindErrno returns the number of err, for another process: ETIMEDOUT for a deadline, 0 for an error without a number.
func FindErrno(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		errno = syscall.ETIMEDOUT
	}
	return errno
}
