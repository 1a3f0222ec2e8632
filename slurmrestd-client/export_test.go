// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Unexported parts for tests in package slurmrest_test.

// FieldsRead returns the members of each kind of record that a version's tables
// read.
func FieldsRead(version string) map[string][]string {
	found, _ := chooseDialects([]string{version})
	d := found[0]
	return map[string][]string{
		"jobs": names1(d.jobTable()), "nodes": names1(d.nodeTable()), "partitions": names1(d.partitionTable()),
		"qos": names1(qosFields), "reservations": names1(reservationFields), "pings": names1(controllerFields),
		"statistics": names1(diagFields), "errors": names1(complaintFields),
	}
}

func names1[T any](fields table[T]) []string { return slices.Sorted(maps.Keys(fields)) }

// NoPauses makes a client's retries immediate, and returns the list to which each pause is added.
func NoPauses(c *Client) *[]time.Duration {
	var pauses []time.Duration
	c.sleep = func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}
	return &pauses
}

// ErrorTable returns the numbers that have a meaning, and the meaning.
func ErrorTable() map[int]error {
	all := map[int]error{}
	for _, row := range meanings {
		all[row.number] = row.is
	}
	return all
}
