// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build live

package slurmrest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

var recordFlag = flag.String("record", "", "write the server's answers into this folder")

// TestRecord writes what the server answers, for each version it serves, into
// files below -record. They become testdata; see TestRecordings.
func TestRecord(t *testing.T) {
	if *recordFlag == "" {
		t.Skip("needs -record DIR")
	}
	for _, version := range served(t) {
		t.Run(version, func(t *testing.T) {
			l := &live{T: t, root: newClient(t, rootConfig(t, version))}
			cfg := rootConfig(t, version)
			cfg.AsUser = "alice"
			l.alice = newClient(t, cfg)
			info, err := l.root.Cluster(t.Context())
			l.ok(err)
			release := strings.Join(strings.SplitN(info.Release, ".", 3)[:2], ".")
			r := recorder{live: l, dir: filepath.Join(*recordFlag, release, version), version: version, cluster: info.Name}
			l.ok(os.MkdirAll(r.dir, 0o755))
			r.all()
		})
	}
}

type recorder struct {
	*live
	dir, version, cluster string
}

// all makes a small world and asks about it.
func (r *recorder) all() {
	const old = slurmrest.V0038
	two := r.submit(slurmrest.JobSubmit{
		Name: "two-nodes", MinNodes: 2, Tasks: 2, TRESPerNode: "gres/gpu:1", TimeLimit: slurmrest.LimitOf(time.Hour),
		Comment: "a comment", QOS: "basic", AppendLogs: true, StdOut: "/tmp/out-%j",
	})
	r.becomes(two, "running", running)
	held := r.submit(slurmrest.JobSubmit{
		Name: "held", Hold: true, RequiredNodes: "n1", ExcludedNodes: "n2", Requeue: ptr(false),
		BeginTime: time.Now().Add(time.Hour),
	})
	array := r.submit(slurmrest.JobSubmit{Name: "array", Array: "0-3%1", MemoryPerNode: 10})
	r.becomes(slurmrest.TaskOf(array.ID, 0), "running", running)
	het := r.het()

	r.get("jobs", "/slurm/jobs/", keepJobs(two, held))
	r.get("jobs-array", "/slurm/job/"+array.String(), nil)
	r.get("jobs-het", "/slurm/job/"+het.String(), nil)
	r.get("nodes", "/slurm/nodes/", nil)
	r.get("node", "/slurm/node/n1", nil)
	r.get("partitions", "/slurm/partitions/", nil)
	r.limitedQOS()
	r.get("qos", "/slurmdb/qos/", nil)
	r.get("diag", "/slurm/diag/", keepDiag)
	r.get("ping", "/slurm/ping/", nil)
	command(r.T, "scontrol", "create", "reservation=night", "starttime=now+1hour", "duration=60", "users=alice", "nodes=n2")
	r.get("reservations", "/slurm/reservations/", nil)
	command(r.T, "scontrol", "delete", "reservation=night")
	uts := ""
	if r.version == slurmrest.V0040 {
		uts = "uts"
	}
	r.get("jobs-nochange", fmt.Sprintf("/slurm/jobs/?update_time=%s%d", uts, time.Now().Add(time.Hour).Unix()), nil)

	r.post("update", "/slurm/job/"+held.String(), map[string]any{"comment": "changed"})
	r.post("update-array", "/slurm/job/"+array.String(), map[string]any{"comment": "all tasks"})
	r.post("update-error", "/slurm/job/"+two.String(), map[string]any{"partition": "debug"})
	r.post("update-unparsed", "/slurm/job/"+two.String(), map[string]any{"time_limit": []string{"no"}, "no_such_key": 1})
	env := any([]string{"PATH=/bin:/usr/bin"})
	if r.version == old {
		env = map[string]string{"PATH": "/bin:/usr/bin"}
	}
	job := map[string]any{"environment": env, "current_working_directory": "/tmp", "partition": "nowhere"}
	r.post("submit-error", "/slurm/job/submit", map[string]any{"script": sleeper, "job": job})
	job["partition"] = "main"
	r.post("submit", "/slurm/job/submit", map[string]any{"script": "#!/bin/sh\n", "job": job})
	r.get("job-404", "/slurm/job/4000000", nil)
	r.get("node-404", "/slurm/node/nowhere", nil)
	r.request("signal", http.MethodDelete, "/slurm/job/"+two.String()+"?signal=CONT", nil, nil)
	r.request("signal-error", http.MethodDelete, "/slurm/job/4000000?signal=CONT", nil, nil)
	if r.version != old {
		r.post("node-update-error", "/slurm/node/n1", map[string]any{"state": []string{"RESUME"}})
	}
	if r.version == slurmrest.V0045 {
		r.post("requeue-error", "/slurm/jobs/requeue", map[string]any{"flags": []string{}, "jobs": []string{held.String()}})
		r.post("requeue", "/slurm/jobs/requeue", map[string]any{"flags": []string{"Hold"}, "jobs": []string{two.String()}})
	}
	r.get("url-404", "/slurm/no/such/thing", nil)
	r.unauthorized("auth-none", "ping/", "")
	r.unauthorized("auth-bad-jobs", "jobs/", "not.a.token")
	r.unauthorized("auth-bad-ping", "ping/", "not.a.token")
}

// limitedQOS adds a QOS that has every limit which the model has.
func (r *recorder) limitedQOS() {
	command(r.T, "sacctmgr", "-i", "add", "qos", "limited", "set", "priority=7", "gracetime=90", "maxwall=120",
		"preemptexempttime=00:10:00", "maxtresperuser=gres/gpu=4,cpu=8", "maxtresperjob=cpu=6", "grptres=cpu=16", "mintresperjob=cpu=1",
		"flags=DenyOnLimit", "description=with limits")
	r.Cleanup(func() { command(r.T, "sacctmgr", "-i", "delete", "qos", "limited") })
}

func (r *recorder) het() slurmrest.Ref {
	done, err := r.alice.SubmitHet(r.Context(), []slurmrest.JobSubmit{
		{Script: sleeper, Name: "het", WorkDir: "/tmp", Hold: true},
		{Name: "het", WorkDir: "/tmp", Tasks: 2, Hold: true},
	})
	r.ok(err)
	ref := slurmrest.JobID(done.ID)
	r.Cleanup(func() { _ = r.root.Cancel(context.Background(), ref) })
	return ref
}

func (r *recorder) get(name, path string, keep func(map[string]any)) {
	r.request(name, http.MethodGet, path, nil, keep)
}

func (r *recorder) post(name, path string, body any) {
	raw, err := json.Marshal(body)
	r.ok(err)
	r.request(name, http.MethodPost, path, raw, nil)
}

// request asks as alice, by hand, and records the answer.
func (r *recorder) request(name, method, path string, body []byte, keep func(map[string]any)) {
	r.Helper()
	db, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	req, err := http.NewRequest(method, fmt.Sprintf("%s/%s/%s/%s", *urlFlag, db, r.version, rest), bytes.NewReader(body))
	r.ok(err)
	_, token, err := slurmrest.TokenFile(tokenFile(r.T, "root", time.Hour), "root")(r.Context())
	r.ok(err)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	req.Header.Set("X-SLURM-USER-NAME", "root")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	r.save(name, req, keep)
}

func (r *recorder) unauthorized(name, path, token string) {
	req, err := http.NewRequest(http.MethodGet, *urlFlag+"/slurm/"+r.version+"/"+path, nil)
	r.ok(err)
	if token != "" {
		req.Header.Set("X-SLURM-USER-TOKEN", token)
		req.Header.Set("X-SLURM-USER-NAME", "root")
	}
	r.save(name, req, nil)
}

func (r *recorder) save(name string, req *http.Request, keep func(map[string]any)) {
	r.Helper()
	resp, err := http.DefaultClient.Do(req)
	r.ok(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	r.ok(err)
	rec := recording{Method: req.Method, Status: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
	var body any = string(raw)
	if strings.HasPrefix(rec.Type, "application/json") && len(raw) > 0 {
		var parsed map[string]any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		r.ok(dec.Decode(&parsed))
		if keep != nil {
			keep(parsed)
		}
		body = r.scrub("", parsed)
	}
	rec.Body, err = json.Marshal(body)
	r.ok(err)
	out, err := json.MarshalIndent(rec, "", " ")
	r.ok(err)
	r.ok(os.WriteFile(filepath.Join(r.dir, name+".json"), append(out, '\n'), 0o644))
}

// scrub replaces what differs from one recording to the next.
func (r *recorder) scrub(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, one := range v {
			v[k] = r.scrub(k, one)
		}
	case []any:
		for i, one := range v {
			v[i] = r.scrub(key, one)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && n > 1_600_000_000 && n < 1<<32-2 {
			return json.Number("1700000000")
		}
		if key == "latency" || key == "cpu_load" || strings.HasPrefix(key, "free_mem") {
			return json.Number("1000")
		}
	case string:
		if v == r.cluster {
			return "mini"
		}
		if key == "source" && strings.ContainsAny(v, "[]") || key == "operating_system" {
			return "scrubbed"
		}
	}
	return value
}

// keepJobs leaves only these jobs in a list.
func keepJobs(refs ...slurmrest.Ref) func(map[string]any) {
	return func(answer map[string]any) {
		var kept []any
		for _, job := range answer["jobs"].([]any) {
			for _, ref := range refs {
				if fmt.Sprint(job.(map[string]any)["job_id"]) == ref.String() {
					kept = append(kept, job)
				}
			}
		}
		answer["jobs"] = kept
	}
}

// keepDiag leaves two of each list.
func keepDiag(answer map[string]any) {
	statistics := answer["statistics"].(map[string]any)
	for name, value := range statistics {
		if list, ok := value.([]any); ok && len(list) > 2 {
			statistics[name] = list[:2]
		}
	}
}
