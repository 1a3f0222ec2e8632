// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"strings"
	"testing"
	"time"
)

// Lines as squeue 26.05 prints them.
const (
	one   = "10|1001|CANCELLED|None|0|1|1|n1|2026-11-20T16:41:18|N/A|10|N/A|N/A|N/A|n1|2026-11-20T16:41:16|2026-11-20T16:45:00|\n"
	array = "49|1001|RUNNING|None|1|1|1|n2|2026-11-20T16:41:18|2026-11-20T16:50:00|48|2|N/A|N/A|n[2-3]|2026-11-20T16:41:16|2026-11-20T16:45:00|\n" +
		"48|1001|COMPLETING|TimeLimit|2|1|2|n7|2026-11-20T16:41:18|N/A|48|3|N/A|N/A|n7|2026-11-20T16:41:16|N/A|\n"
)

func TestParse(t *testing.T) {
	j, err := parseJob(one, "10")
	if err != nil || j.ID != 10 || j.UID != 1001 || j.ArrayTask != -1 || j.HetOffset != -1 || j.Preempted != "" || !j.Batch || !j.Requeue || j.String() != "10" {
		t.Errorf("parseJob of job 10 = %+v, %v", j, err)
	}
	// The number of an array is that of one of its tasks too.
	j, err = parseJob(array, "48")
	if err != nil || j.ID != 48 || j.ArrayTask != 3 || j.Restarts != 2 || j.Reason != "TimeLimit" || j.String() != "48_3" || !j.Batch || !j.End.IsZero() {
		t.Errorf("parseJob of job 48 = %+v, %v; want task 3", j, err)
	}
	j, err = parseJob(array, "48_2")
	if err != nil || j.ID != 49 || j.nodeList != "n[2-3]" || j.Preempted == "" || !j.Runs() || j.Waits() || !j.Expired() {
		t.Errorf("parseJob of job 48_2 = %+v, %v", j, err)
	}
	for end, want := range map[string]bool{
		time.Now().Add(time.Hour).Format("2006-01-02T15:04:05"):    false,
		time.Now().Add(-time.Minute).Format("2006-01-02T15:04:05"): true,
		"NONE": false, "N/A": false,
	} {
		j, err := parseJob(strings.Replace(array, "2026-11-20T16:45:00", end, 1), "49")
		if err != nil || j.Expired() != want {
			t.Errorf("job with the end %s = %+v, %v; wrong Expired", end, j, err)
		}
	}
	for _, bad := range []string{"", "\n", "x", strings.Replace(one, "1001", "alice", 1), strings.TrimSuffix(one, "|\n") + "||"} {
		if j, err := parseJob(bad, "10"); err == nil {
			t.Errorf("parseJob of %q = %+v; want an error", bad, j)
		}
	}
}
