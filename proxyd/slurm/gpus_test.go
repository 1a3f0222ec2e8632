// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		detail []string
		want   [][]int // nil: no GPUs, or an error
		bad    bool
	}{
		{nil, nil, false},
		{[]string{""}, nil, false},
		{[]string{"license:2"}, nil, false},
		{[]string{"gpu:2(IDX:0-1)", "gpu:1(IDX:3)"}, [][]int{{0, 1}, {3}}, false},
		{[]string{"gpu:a100:3(IDX:0,2-3),shard:4(1/4,3/4)"}, [][]int{{0, 2, 3}}, false},
		{[]string{"gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)"}, [][]int{{0, 1, 2}}, false},
		{[]string{"gpu:2(IDX:N/A)", ""}, [][]int{{0, 1}, nil}, false},
		{[]string{"gpu:2"}, [][]int{{0, 1}}, false},
		{[]string{"mps:200(IDX:0-1)"}, nil, false},
		{[]string{"gpu:2(IDX:1-0)"}, nil, true},
		{[]string{"gpu:2(IDX:x)"}, nil, true},
		{[]string{"gpu:many"}, nil, true},
		{[]string{"gpu:1(IDX:99999999)"}, nil, true},
	} {
		out, err := json.Marshal(map[string]any{"jobs": []any{map[string]any{"job_id": 7, "name": "gres_detail", "gres_detail": c.detail}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseGPUs(out, "7")
		if (err != nil) != c.bad || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.detail, got, err, c.want)
		}
	}
	for _, out := range []string{"", "{}", `{"jobs": [{}, {}]}`, `{"jobs": 3}`} {
		if got, err := parseGPUs([]byte(out), "7"); err == nil {
			t.Errorf("parseGPUs(%q) = %v, want an error", out, got)
		}
	}
}

// TestGPUsWithoutJSON asks a Slurm with a scontrol that has no JSON, as that of 22.05: squeue is asked instead. Another
// failure of scontrol is returned.
func TestGPUsWithoutJSON(t *testing.T) {
	for complaint, want := range map[string][][]int{"unrecognized option '--json'": {{0, 1}}, "Unable to contact slurm controller": nil} {
		dir := t.TempDir()
		for name, script := range map[string]string{
			"scontrol": `echo "scontrol: ` + complaint + `" >&2; exit 1`,
			"squeue":   `[ "$*" = "--states=all --jobs=7 --json" ] && echo '{"jobs": [{"job_id": 7, "gres_detail": ["gpu:2(IDX:0-1)"]}]}'`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, err := New(filepath.Join(dir, "scontrol")).GPUs(t.Context(), "7")
		if (err == nil) != (want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", complaint, got, err, want)
		}
	}
}

// TestGPUsOfAnArray reads scontrol's output about a single task: scontrol prints all tasks of the array.
func TestGPUsOfAnArray(t *testing.T) {
	const (
		v2605 = `{"jobs": [
			{"job_id": 4, "array_job_id": {"set": true, "number": 4}, "array_task_id": {"set": true, "number": 2}, "gres_detail": ["gpu:1(IDX:0)"]},
			{"job_id": 6, "array_job_id": {"set": true, "number": 4}, "array_task_id": {"set": true, "number": 1}, "gres_detail": ["gpu:1(IDX:1)"]},
			{"job_id": 5, "array_job_id": {"set": true, "number": 4}, "array_task_id": {"set": false, "number": 0}, "gres_detail": []}]}`
		v2205 = `{"jobs": [
			{"job_id": 4, "array_job_id": 4, "array_task_id": 2, "gres_detail": ["gpu:1(IDX:0)"]},
			{"job_id": 5, "array_job_id": 4, "array_task_id": null, "gres_detail": []},
			{"job_id": 6, "array_job_id": 4, "array_task_id": 1, "gres_detail": ["gpu:1(IDX:1)"]}]}`
	)
	for _, out := range []string{v2605, v2205} {
		for job, want := range map[string][][]int{"4": {{0}}, "4_2": {{0}}, "4_1": {{1}}, "6": {{1}}, "5": nil} {
			if got, err := parseGPUs([]byte(out), job); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("job %s has GPUs %v, %v; want %v", job, got, err, want)
			}
		}
		for _, job := range []string{"4_0", "7", "5_1", "4_"} {
			if got, err := parseGPUs([]byte(out), job); err == nil {
				t.Errorf("job %s, which is not shown, has GPUs %v", job, got)
			}
		}
	}
}

func TestConstrains(t *testing.T) {
	const config = "ClusterName             = mini\n\nCgroup Support Configuration:\nAllowedRAMSpace         = 100.0%%\nConstrainDevices        = yes\n"
	if !parseConstrains(config) || parseConstrains(strings.Replace(config, "yes", "no", 1)) || parseConstrains("") {
		t.Error("ConstrainDevices is not read")
	}
}
