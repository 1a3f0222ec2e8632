// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package calls defines the requests that the daemons of nodes send each other during checkpoints, restores and
// uploads: the name of each call, its arguments, its reply, and the message of proxyd.proto for each. Package
// checkpoint makes the calls, and carries them out (checkpoint/calls.go).
//
//	calls.go     the calls, with the types of their arguments and replies
//	messages.go  their messages; package messages has those of values of other packages
//
// A new call needs a message in proxyd.proto, a variable and types in calls.go, its functions in messages.go, a row in
// the tests of their messages, and a handler in checkpoint/calls.go.
package calls
