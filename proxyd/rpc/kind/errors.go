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
	// ErrBusy says that the same is already under way, or that the caller asks too much at a
	// time.
	ErrBusy = errors.New("already under way")
	// ErrTimeout says that a deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrRefused says that a credential was not accepted, or that a reply had no right seal.
	// Only clients make it.
	ErrRefused = errors.New("not trusted")
	// ErrInternal is every other error of a server.
	ErrInternal = errors.New("internal error")
)
