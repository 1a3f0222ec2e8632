// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package policy is the host of policies: it starts their processes, asks them, and contains their failures. It does
// not look at their decisions.
//
//	         Ask                                    file or settings changed
//	           │                                              │
//	resting ───┴──► starting ──► running ──► asked ──► running ──► a second process starts;
//	   ▲               │                       │                    if that works it takes over,
//	   └── back-off ◄──┴── crash, hang, flood ◄┘                    else the first goes on
//
// A policy has a time to answer, a bound on memory, and a process group of its own that dies with the policy, and
// with the daemon. A policy's standard error is logged, within bounds.
package policy
