// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package rpc is the contract of proxyd: the requests that people (through singctl) and the
// proxyds of other nodes make over the network. The package holds the messages, a client and the
// interfaces of a server; the server itself is package api. Of our packages only kind and munge
// below are imported.
//
// Every call carries a munge credential and every reply a seal: package munge draws how. Errors
// keep their kind across the network: errors.Is with the kinds in errors.go says the same on both
// sides.
package rpc

//go:generate ./generate
