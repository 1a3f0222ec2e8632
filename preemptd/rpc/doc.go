// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package rpc is the contract of preemptd: the requests of people, through singctl, to preemptd over the network. The
// package holds the messages, a client and the parts of a server; the server itself is package api. Of this
// repository the package imports only proxyd/rpc/munge, the credential, and proxyd/rpc/kind, the kinds of errors.
//
// Every call carries a munge credential and every reply a seal. A credential names its addressee:
// here Name, since a cluster has a single working preemptd, on any host.
//
// Errors keep their kind across the network: errors.Is with the kinds in errors.go gives the same
// answer on both sides.
package rpc

//go:generate ./generate
