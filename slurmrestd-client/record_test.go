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

// TestRecord writes the server's answers, for each version served, into files below -record. They
// become testdata; see TestRecordings.
func TestRecord(t *testing.T) {
	if *recordFlag == "" {
		t.Skip("needs -record DIR")
	}
	for _, version := range servedVersions(t) {
		t.Run(version, func(t *testing.T) {
			l := &live{T: t, root: newClient(t, rootConfig(t, version))}
			cfg := rootConfig(t, version)
			cfg.AsUser = "alice"
			l.alice = newClient(t, cfg)
			info, err := l.root.Cluster(t.Context())
			l.mustSucceed(err)
			release := strings.Join(strings.SplitN(info.Release, ".", 3)[:2], ".")
			r := recorder{live: l, dir: filepath.Join(*recordFlag, release, version), version: version, cluster: info.Name}
			l.mustSucceed(os.MkdirAll(r.dir, 0o755))
			r.recordAll()
		})
	}
}

type recorder struct {
	*live
	dir, version, cluster string
}

// recordAll makes jobs, nodes and other objects, and records requests about them.
func (r *recorder) recordAll() {
	const old = slurmrest.V0038
	two := r.submitJob(slurmrest.JobSubmit{
		Name: "two-nodes", MinNodes: 2, Tasks: 2, TRESPerNode: "gres/gpu:1", TimeLimit: slurmrest.LimitOf(time.Hour),
		Comment: "a comment", QOS: "basic", AppendLogs: true, StdOut: "/tmp/out-%j",
	})
	r.waitForJob(two, "running", isRunning)
	held := r.submitJob(slurmrest.JobSubmit{
		Name: "held", Hold: true, RequiredNodes: "n1", ExcludedNodes: "n2", Requeue: pointerTo(false),
		BeginTime: time.Now().Add(time.Hour),
	})
	array := r.submitJob(slurmrest.JobSubmit{Name: "array", Array: "0-3%1", MemoryPerNode: 10})
	r.waitForJob(slurmrest.TaskOf(array.ID, 0), "running", isRunning)
	het := r.submitHet()

	r.recordGet("jobs", "/slurm/jobs/", keepJobs(two, held))
	r.recordGet("jobs-array", "/slurm/job/"+array.String(), nil)
	r.recordGet("jobs-het", "/slurm/job/"+het.String(), nil)
	r.recordGet("nodes", "/slurm/nodes/", nil)
	r.recordGet("node", "/slurm/node/n1", nil)
	r.recordGet("partitions", "/slurm/partitions/", nil)
	r.limitedQOS()
	r.recordGet("qos", "/slurmdb/qos/", nil)
	r.recordGet("diag", "/slurm/diag/", keepDiag)
	r.recordGet("ping", "/slurm/ping/", nil)
	runCommand(r.T, "scontrol", "create", "reservation=night", "starttime=now+1hour", "duration=60", "users=alice", "nodes=n2")
	r.recordGet("reservations", "/slurm/reservations/", nil)
	runCommand(r.T, "scontrol", "delete", "reservation=night")
	uts := ""
	if r.version == slurmrest.V0040 {
		uts = "uts"
	}
	r.recordGet("jobs-nochange", fmt.Sprintf("/slurm/jobs/?update_time=%s%d", uts, time.Now().Add(time.Hour).Unix()), nil)

	r.recordPost("update", "/slurm/job/"+held.String(), map[string]any{"comment": "changed"})
	r.recordPost("update-array", "/slurm/job/"+array.String(), map[string]any{"comment": "all tasks"})
	r.recordPost("update-error", "/slurm/job/"+two.String(), map[string]any{"partition": "debug"})
	r.recordPost("update-unparsed", "/slurm/job/"+two.String(), map[string]any{"time_limit": []string{"no"}, "no_such_key": 1})
	env := any([]string{"PATH=/bin:/usr/bin"})
	if r.version == old {
		env = map[string]string{"PATH": "/bin:/usr/bin"}
	}
	job := map[string]any{"environment": env, "current_working_directory": "/tmp", "partition": "nowhere"}
	r.recordPost("submit-error", "/slurm/job/submit", map[string]any{"script": sleeper, "job": job})
	job["partition"] = "main"
	r.recordPost("submit", "/slurm/job/submit", map[string]any{"script": "#!/bin/sh\n", "job": job})
	r.recordGet("job-404", "/slurm/job/4000000", nil)
	r.recordGet("node-404", "/slurm/node/nowhere", nil)
	r.recordRequest("signal", http.MethodDelete, "/slurm/job/"+two.String()+"?signal=CONT", nil, nil)
	r.recordRequest("signal-error", http.MethodDelete, "/slurm/job/4000000?signal=CONT", nil, nil)
	if r.version != old {
		r.recordPost("node-update-error", "/slurm/node/n1", map[string]any{"state": []string{"RESUME"}})
	}
	if r.version == slurmrest.V0045 {
		r.recordPost("requeue-error", "/slurm/jobs/requeue", map[string]any{"flags": []string{}, "jobs": []string{held.String()}})
		r.recordPost("requeue", "/slurm/jobs/requeue", map[string]any{"flags": []string{"Hold"}, "jobs": []string{two.String()}})
	}
	r.recordGet("url-404", "/slurm/no/such/thing", nil)
	r.recordUnauthorized("auth-none", "ping/", "")
	r.recordUnauthorized("auth-bad-jobs", "jobs/", "not.a.token")
	r.recordUnauthorized("auth-bad-ping", "ping/", "not.a.token")
}

// limitedQOS adds a QOS that has every limit of the model.
func (r *recorder) limitedQOS() {
	runCommand(r.T, "sacctmgr", "-i", "add", "qos", "limited", "set", "priority=7", "gracetime=90", "maxwall=120",
		"preemptexempttime=00:10:00", "maxtresperuser=gres/gpu=4,cpu=8", "maxtresperjob=cpu=6", "grptres=cpu=16", "mintresperjob=cpu=1",
		"flags=DenyOnLimit", "description=with limits")
	r.Cleanup(func() { runCommand(r.T, "sacctmgr", "-i", "delete", "qos", "limited") })
}

func (r *recorder) submitHet() slurmrest.Ref {
	done, err := r.alice.SubmitHet(r.Context(), []slurmrest.JobSubmit{
		{Script: sleeper, Name: "het", WorkDir: "/tmp", Hold: true},
		{Name: "het", WorkDir: "/tmp", Tasks: 2, Hold: true},
	})
	r.mustSucceed(err)
	ref := slurmrest.JobID(done.ID)
	r.Cleanup(func() { _ = r.root.Cancel(context.Background(), ref) })
	return ref
}

func (r *recorder) recordGet(name, path string, keep func(map[string]any)) {
	r.recordRequest(name, http.MethodGet, path, nil, keep)
}

func (r *recorder) recordPost(name, path string, body any) {
	raw, err := json.Marshal(body)
	r.mustSucceed(err)
	r.recordRequest(name, http.MethodPost, path, raw, nil)
}

// recordRequest asks as alice, by hand, and records the answer.
func (r *recorder) recordRequest(name, method, path string, body []byte, keep func(map[string]any)) {
	r.Helper()
	db, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	req, err := http.NewRequest(method, fmt.Sprintf("%s/%s/%s/%s", *urlFlag, db, r.version, rest), bytes.NewReader(body))
	r.mustSucceed(err)
	_, token, err := slurmrest.TokenFile(tokenFile(r.T, "root", time.Hour), "root")(r.Context())
	r.mustSucceed(err)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	req.Header.Set("X-SLURM-USER-NAME", "root")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	r.saveRecording(name, req, keep)
}

func (r *recorder) recordUnauthorized(name, path, token string) {
	req, err := http.NewRequest(http.MethodGet, *urlFlag+"/slurm/"+r.version+"/"+path, nil)
	r.mustSucceed(err)
	if token != "" {
		req.Header.Set("X-SLURM-USER-TOKEN", token)
		req.Header.Set("X-SLURM-USER-NAME", "root")
	}
	r.saveRecording(name, req, nil)
}

func (r *recorder) saveRecording(name string, req *http.Request, keep func(map[string]any)) {
	r.Helper()
	resp, err := http.DefaultClient.Do(req)
	r.mustSucceed(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	r.mustSucceed(err)
	rec := recording{Method: req.Method, Status: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
	var body any = string(raw)
	if strings.HasPrefix(rec.Type, "application/json") && len(raw) > 0 {
		var parsed map[string]any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		r.mustSucceed(dec.Decode(&parsed))
		if keep != nil {
			keep(parsed)
		}
		body = r.scrubValue("", parsed)
	}
	rec.Body, err = json.Marshal(body)
	r.mustSucceed(err)
	out, err := json.MarshalIndent(rec, "", " ")
	r.mustSucceed(err)
	r.mustSucceed(os.WriteFile(filepath.Join(r.dir, name+".json"), append(out, '\n'), 0o644))
}

// scrubValue replaces values that differ from one recording to the next.
func (r *recorder) scrubValue(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, one := range v {
			v[k] = r.scrubValue(k, one)
		}
	case []any:
		for i, one := range v {
			v[i] = r.scrubValue(key, one)
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
