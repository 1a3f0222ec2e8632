// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package driver holds the state of a process in terms of CUDA's driver: its contexts, streams and events, its spaces
// on devices, and how results and faults reach the program. Every area of calls embeds a Process. The calls about
// devices, contexts, streams and events are here.
//
//	Process          device → Space, made at first use
//	├─ Context       its default streams, its peers
//	├─ Stream        ├─ Event
//	TimeSlices       which Space of a device of the backend is mapped
//
// Locks: Process.mu → TimeSlices.mu → ringHold.mu; Process.mu → Context.mu → Space.mu.
package driver
