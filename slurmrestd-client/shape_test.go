// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestFakeHasTheShape compares the fake server's answers with the recordings: every
// member that the fake writes is in the recording and has the same type there, and
// every member of the recording that the client reads is written by the fake.
func TestFakeHasTheShape(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		s := newWorld(t, release, version)
		read := slurmrest.FieldsRead(version)
		qos := "qos"
		if version == slurmrest.V0038 {
			qos = "QOS"
		}
		for _, test := range []struct{ name, path, key, kind string }{
			{"jobs", "/slurm/%s/jobs/", "jobs", "jobs"},
			{"jobs-array", "/slurm/%s/job/10", "jobs", "jobs"},
			{"jobs-het", "/slurm/%s/job/20", "jobs", "jobs"},
			{"nodes", "/slurm/%s/nodes/", "nodes", "nodes"},
			{"partitions", "/slurm/%s/partitions/", "partitions", "partitions"},
			{"qos", "/slurmdb/%s/qos/", qos, "qos"},
			{"reservations", "/slurm/%s/reservations/", "reservations", "reservations"},
			{"ping", "/slurm/%s/ping/", "pings", "pings"},
			{"diag", "/slurm/%s/diag/", "statistics", "statistics"},
			{"job-404", "/slurm/%s/job/4000000", "errors", "errors"},
			{"node-404", "/slurm/%s/node/nowhere", "errors", "errors"},
		} {
			_, fake := sendRequest(t, s, http.MethodGet, fmt.Sprintf(test.path, version), "")
			live := parseObject(t, loadRecording(t, release, version, test.name).Body)
			compareWithin(t, test.name, fake, live)
			compareRead(t, test.name, firstRecord(fake[test.key]), firstRecord(live[test.key]), read[test.kind])
		}
	})
}

// TestFakeRefusesAlike compares status and shape of answers that are not lists with recordings.
func TestFakeRefusesAlike(t *testing.T) {
	eachRecorded(t, func(t *testing.T, release, version string) {
		for _, test := range []struct{ name, method, path, body, only string }{
			{"update", "POST", "/slurm/%s/job/2", `{"comment":"x"}`, ""},
			{"update-error", "POST", "/slurm/%s/job/1", `{"partition":"debug"}`, ""},
			{"update-unparsed", "POST", "/slurm/%s/job/1", `{"no_such_key":1}`, slurmrest.V0038},
			{"submit", "POST", "/slurm/%s/job/submit", `{"script":"#!/bin/sh\n","job":{"environment":["A=B"]}}`, ""},
			{"job-404", "GET", "/slurm/%s/job/4000000", "", ""},
			{"node-404", "GET", "/slurm/%s/node/nowhere", "", ""},
			{"signal", "DELETE", "/slurm/%s/job/1?signal=CONT", "", ""},
			{"signal-error", "DELETE", "/slurm/%s/job/4000000?signal=CONT", "", ""},
			{"node-update-error", "POST", "/slurm/%s/node/n1", `{"state":["RESUME"]}`, "not " + slurmrest.V0038},
			{"requeue-error", "POST", "/slurm/%s/jobs/requeue", `{"flags":[],"jobs":["2"]}`, slurmrest.V0045},
			{"requeue", "POST", "/slurm/%s/jobs/requeue", `{"flags":["Hold"],"jobs":["1"]}`, slurmrest.V0045},
			{"url-404", "GET", "/slurm/v0.0.1/no/such/thing", "", ""},
			{"jobs-nochange", "GET", "/slurm/%s/jobs/?update_time=uts2000000000", "", slurmrest.V0040},
			{"jobs-nochange", "GET", "/slurm/%s/jobs/?update_time=2000000000", "", "not " + slurmrest.V0040},
		} {
			if test.only != "" && test.only != version && (!strings.HasPrefix(test.only, "not ") || test.only == "not "+version) {
				continue
			}
			path := test.path
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, version)
			}
			status, fake := sendRequest(t, newWorld(t, release, version), test.method, path, test.body)
			live := loadRecording(t, release, version, test.name)
			// 26.05 answers 422 to most requests that 24.11 answers with 500; the client uses
			// neither status.
			if status != live.Status && (status != 500 || live.Status != 422) {
				t.Errorf("%s: status %d; recorded %d", test.name, status, live.Status)
			}
			if strings.HasPrefix(live.Type, "application/json") {
				compareWithin(t, test.name, fake, parseObject(t, live.Body))
			}
		}
	})
}

// newWorld returns a fake server with the jobs that TestRecord made.
func newWorld(t *testing.T, release, version string) *slurmresttest.Server {
	full := map[string]string{"22.05": "22.05.8", "24.11": "24.11.5", "26.05": "26.05.5"}[release]
	s := slurmresttest.Start(t, slurmresttest.Options{Release: full, Versions: []string{version}})
	s.AddJob(slurmrest.Job{
		ID: 1, Name: "two-nodes", User: "alice", Partition: "main", QOS: "basic", Batch: true, Requeueable: true,
		TimeLimit: slurmrest.LimitOf(time.Hour), TRESPerNode: "gres/gpu:1", GRESDetail: []string{"gpu:1(IDX:0)"},
	})
	s.StartJob(1, "n1", "n2")
	s.AddJob(slurmrest.Job{ID: 2, Name: "held", Held: true, Priority: slurmrest.Num(0)})
	s.AddJob(slurmrest.Job{ID: 10, Array: slurmrest.Array{JobID: 10, Tasks: "1-3"}})
	s.AddJob(slurmrest.Job{ID: 11, Array: slurmrest.Array{JobID: 10, Task: slurmrest.Num(0)}})
	s.AddJob(slurmrest.Job{ID: 20, Het: slurmrest.Het{JobID: 20, IDs: "20-21"}})
	s.AddJob(slurmrest.Job{ID: 21, Het: slurmrest.Het{JobID: 20, Offset: 1, IDs: "20-21"}})
	s.AddNode(slurmrest.Node{Name: "n1", Partitions: []string{"main"}, GRES: "gpu:2"})
	s.AddNode(slurmrest.Node{Name: "n2"})
	s.AddPartition(slurmrest.Partition{Name: "main", State: "UP", MaxTime: slurmrest.Unlimited()})
	s.AddQOS(slurmrest.QOS{Name: "premium", Preempts: []string{"basic"}, PreemptMode: []string{"REQUEUE"}})
	s.AddReservation(slurmrest.Reservation{Name: "night", Flags: []string{"SPEC_NODES"}})
	return s
}

// sendRequest sends a request by hand.
func sendRequest(t *testing.T, s *slurmresttest.Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	socket := strings.TrimPrefix(s.Config().Address, "unix:")
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://fake"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, parseObject(t, raw)
}

func parseObject(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("unmarshal: %v: %s", err, raw)
	}
	return o
}

// firstRecord is the first record of a list, or the record itself.
func firstRecord(value any) map[string]any {
	if list, ok := value.([]any); ok && len(list) > 0 {
		value = list[0]
	}
	o, _ := value.(map[string]any)
	return o
}

// compareWithin reports members of the fake that a live server does not have, or has with
// another type. A null matches any value; an empty list matches any list.
func compareWithin(t *testing.T, path string, fake, live any) {
	t.Helper()
	if fake == nil || live == nil {
		return
	}
	if got, want := fmt.Sprintf("%T", fake), fmt.Sprintf("%T", live); got != want {
		t.Errorf("%s: the fake writes %s; recorded %s", path, got, want)
		return
	}
	switch f := fake.(type) {
	case map[string]any:
		l := live.(map[string]any)
		for key, value := range f {
			if other, ok := l[key]; ok {
				compareWithin(t, path+"."+key, value, other)
			} else if !isIndexed(path) && len(l) > 0 {
				t.Errorf("%s.%s: the fake writes it; it is not recorded", path, key)
			}
		}
	case []any:
		if l := live.([]any); len(f) > 0 && len(l) > 0 {
			compareWithin(t, path+"[]", f[0], l[0])
		}
	}
}

// isIndexed reports whether an object's members are numbers of sockets or cores.
func isIndexed(path string) bool {
	return strings.HasSuffix(path, ".sockets") || strings.HasSuffix(path, ".cores")
}

// compareRead reports members that the client reads and only the live server writes.
func compareRead(t *testing.T, path string, fake, live map[string]any, read []string) {
	t.Helper()
	if len(live) == 0 {
		t.Errorf("%s: the recording has no members", path)
	}
	for key := range live {
		if _, ok := fake[key]; !ok && slices.Contains(read, key) {
			t.Errorf("%s.%s: the client reads it; the fake does not write it", path, key)
		}
	}
}
