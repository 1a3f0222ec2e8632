// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package kind

import "errors"

// The kinds that both contracts have.
var (
	// ErrInvalid says that a request makes no sense as written.
	ErrInvalid = errors.New("invalid request")
	// ErrNoJob says that there is no such job.
	ErrNoJob = errors.New("no such job")
	// ErrDenied says that the caller may not do this.
	ErrDenied = errors.New("not permitted")
	// ErrBusy says that the same request is already under way, or that the caller has too many requests under
	// way.
	ErrBusy = errors.New("already under way")
	// ErrTimeout says that a deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrRefused says that a credential was not accepted, or that the seal of a reply was wrong. Only clients
	// return it.
	ErrRefused = errors.New("not trusted")
	// ErrInternal is the kind of all other errors of a server.
	ErrInternal = errors.New("internal error")
)
