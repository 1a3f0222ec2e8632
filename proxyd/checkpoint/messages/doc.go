// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package messages translates values of other packages into the messages of proxyd.proto that the conductors of nodes send
// each other, and back. Package checkpoint has the calls and their own arguments.
//
//	cut.go      orders to device servers and events of theirs, of package device/cut
//	capsule.go  programs, devices, leases and obstacles of a capsule
//
// A message of another release may lack fields, which are then zero.
package messages
