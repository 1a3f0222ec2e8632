// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	listJobsFlag = flag.Int("list.jobs", 100_000, "jobs in the list of BenchmarkListRatio")
	workerFlag   = flag.String("list.worker", "", "decode one list in this way and report (used by BenchmarkListRatio)")
)

// listBody returns the answer to GET jobs of a 26.05 with n jobs, made during the read. Its
// records are two recorded ones (a running and a pending job, with every field that
// the server sends), laid out and escaped as the server does, with ids, names, users
// and times that differ from job to job.
type listBody struct {
	n, next int
	pending []byte // made and not read
	buf     []byte
	kinds   [2]template
}

// template is a record in pieces: text, hole, text, hole, …, text.
type template struct {
	texts []string
	holes []string
}

func newListBody(tb testing.TB, n int) *listBody {
	b := &listBody{n: n, pending: []byte("{\n  \"jobs\": [\n    ")}
	for i, job := range recordedJobs(tb) {
		b.kinds[i] = makeTemplate(tb, job)
	}
	return b
}

func recordedJobs(tb testing.TB) []map[string]any {
	raw, err := os.ReadFile("testdata/26.05/v0.0.45/jobs.json")
	if err != nil {
		tb.Fatal(err)
	}
	var rec struct {
		Body struct{ Jobs []map[string]any }
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&rec); err != nil || len(rec.Body.Jobs) != 2 {
		tb.Fatalf("testdata: %d jobs, %v; want 2", len(rec.Body.Jobs), err)
	}
	return rec.Body.Jobs
}

// makeTemplate makes a template from a job: each value that differs between jobs becomes a hole.
func makeTemplate(tb testing.TB, job map[string]any) template {
	job["job_id"] = "<id>"
	job["name"] = "train-<id>"
	job["user_name"] = "user<user>"
	job["comment"] = "step <id> of sweep"
	job["standard_output"] = "/home/user<user>/logs/<id>.out"
	job["current_working_directory"] = "/home/user<user>/project"
	job["submit_time"] = map[string]any{"set": true, "infinite": false, "number": "<time>"}
	text, err := json.MarshalIndent(job, "    ", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	// The server escapes slashes, which makes a decoder slower.
	escaped := strings.NewReplacer(
		"/", "\\/", "\\u003c", "<", "\\u003e", ">",
		"\"\\u003cid\\u003e\"", "<id>", "\"\\u003ctime\\u003e\"", "<time>",
	).Replace(string(text))
	hole := regexp.MustCompile("<(id|user|time)>")
	t := template{texts: hole.Split(escaped, -1)}
	t.holes = hole.FindAllString(escaped, -1)
	return t
}

// appendRecord appends the record of job i.
func (t template) appendRecord(b []byte, i int) []byte {
	for k, text := range t.texts {
		b = append(b, text...)
		if k == len(t.holes) {
			break
		}
		switch t.holes[k] {
		case "<id>":
			b = strconv.AppendInt(b, int64(1_000_000+i), 10)
		case "<user>":
			b = strconv.AppendInt(b, int64(i%500), 10)
		case "<time>":
			b = strconv.AppendInt(b, int64(1_700_000_000+i), 10)
		}
	}
	return b
}

func (l *listBody) Read(p []byte) (int, error) {
	if len(l.pending) == 0 {
		switch {
		case l.next > l.n:
			return 0, io.EOF
		case l.next == l.n:
			l.pending = []byte("\n  ],\n  \"last_update\": {\n    \"set\": true,\n    \"number\": 1700000000\n  },\n  \"errors\": [],\n  \"warnings\": []\n}")
		default:
			l.buf = l.buf[:0]
			if l.next > 0 {
				l.buf = append(l.buf, ",\n    "...)
			}
			l.buf = l.kinds[l.next%2].appendRecord(l.buf, l.next)
			l.pending = l.buf
		}
		l.next++
	}
	n := copy(p, l.pending)
	l.pending = l.pending[n:]
	return n, nil
}

// bodyLength is the length of the body, as Content-Length would say.
func (l *listBody) bodyLength(tb testing.TB) int64 {
	n, err := io.Copy(io.Discard, newListBody(tb, l.n))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// decoders are the ways to read a list. All count the jobs that have an id.
var decoders = map[string]func(tb testing.TB, body *listBody) int{
	"stream": decodeStream, "slice": decodeSlice, "map": decodeMap, "generate": decodeNothing,
}

// decodeStream decodes the body job by job, as EachJob does, and returns the number of jobs.
func decodeStream(tb testing.TB, body *listBody) int {
	count := 0
	_, err := decodeAnswer(body, limits{body: defaultMaxBody, record: defaultMaxRecord},
		answerFields.withFields(recordsField("jobs", v0045{modernVersion{V0045}}.jobTable(), func(j *Job) error {
			if j.ID > 0 && j.Name != "" {
				count++
			}
			return nil
		})))
	if err != nil {
		tb.Fatal(err)
	}
	return count
}

// decodeSlice decodes the body into a slice, as ListJobs does, and returns the number of jobs.
func decodeSlice(tb testing.TB, body *listBody) int {
	var all []Job
	_, err := decodeAnswer(body, limits{body: defaultMaxBody, record: defaultMaxRecord},
		answerFields.withFields(recordsField("jobs", v0045{modernVersion{V0045}}.jobTable(), collectInto(&all))))
	if err != nil {
		tb.Fatal(err)
	}
	runtime.KeepAlive(all)
	return len(all)
}

// decodeMap decodes the body with encoding/json, and returns the number of jobs. Its buffer has the
// right size from the start, which is an advantage.
func decodeMap(tb testing.TB, body *listBody) int {
	raw := make([]byte, 0, body.bodyLength(tb))
	buf := bytes.NewBuffer(raw)
	if _, err := buf.ReadFrom(io.LimitReader(body, int64(cap(raw)))); err != nil {
		tb.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(buf.Bytes(), &answer); err != nil {
		tb.Fatal(err)
	}
	count := 0
	for _, job := range answer["jobs"].([]any) {
		if job.(map[string]any)["job_id"].(float64) > 0 {
			count++
		}
	}
	return count
}

// decodeNothing only reads the body and returns its size: making the body is a cost that all other
// ways have as well.
func decodeNothing(tb testing.TB, body *listBody) int {
	if _, err := io.Copy(io.Discard, body); err != nil {
		tb.Fatal(err)
	}
	return body.n
}

func BenchmarkList(b *testing.B) {
	const jobs = 2000
	for _, way := range []string{"generate", "stream", "slice", "map"} {
		b.Run(way, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(newListBody(b, jobs).bodyLength(b))
			for b.Loop() {
				if got := decoders[way](b, newListBody(b, jobs)); got != jobs {
					b.Fatalf("%d jobs; want %d", got, jobs)
				}
			}
		})
	}
}

// figure is the measurement of one run of one way.
type figure struct {
	took time.Duration
	peak int64 // bytes resident at most
}

// BenchmarkListRatio decodes the same list of -list.jobs jobs in each way, each in a
// process of its own so that the kernel's high-water mark of resident memory is that
// way's alone, and prints the table of docs/performance.md. The time and the memory
// of making the body are in every row.
func BenchmarkListRatio(b *testing.B) {
	if testing.Short() {
		b.Skip("takes a minute and 5 GB")
	}
	runs := map[string][]figure{}
	ways := []string{"map", "slice", "stream", "generate"}
	for b.Loop() {
		for _, way := range ways {
			runs[way] = append(runs[way], inProcess(b, way))
		}
	}
	size := newListBody(b, *listJobsFlag).bodyLength(b)
	base := medianOf(runs["map"])
	fmt.Printf("\n| %d jobs, %d MB | time | peak memory | time ÷ map | memory ÷ map |\n|---|---|---|---|---|\n", *listJobsFlag, size>>20)
	for _, way := range ways {
		f := medianOf(runs[way])
		time, memory := float64(f.took)/float64(base.took), float64(f.peak)/float64(base.peak)
		fmt.Printf("| %s | %.2f s | %d MB | %.3f | %.4f |\n", names[way], f.took.Seconds(), f.peak>>20, time, memory)
		if way == "stream" || way == "slice" {
			b.ReportMetric(time, way+"-time/map")
			b.ReportMetric(memory, way+"-memory/map")
		}
	}
	fmt.Println()
}

var names = map[string]string{
	"map": "encoding/json into map[string]any", "slice": "ListJobs", "stream": "EachJob",
	"generate": "(making the body alone)",
}

func medianOf(all []figure) figure {
	slices.SortFunc(all, func(a, b figure) int { return int(a.took - b.took) })
	return all[len(all)/2]
}

// inProcess runs a single way in a process of its own.
func inProcess(b *testing.B, way string) figure {
	cmd := exec.Command(os.Args[0], "-test.run=^TestListWorker$", "-test.v",
		"-list.worker="+way, fmt.Sprintf("-list.jobs=%d", *listJobsFlag))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v: %s", way, err, out)
	}
	var f figure
	_, report, _ := strings.Cut(string(out), "worker:")
	if _, err := fmt.Sscan(report, &f.took, &f.peak); err != nil {
		b.Fatalf("%s: %v: %s", way, err, out)
	}
	return f
}

// TestListWorker is the process that inProcess starts.
func TestListWorker(t *testing.T) {
	if *workerFlag == "" {
		t.Skip("started by BenchmarkListRatio")
	}
	body := newListBody(t, *listJobsFlag)
	started := time.Now()
	got := decoders[*workerFlag](t, body)
	took := time.Since(started)
	if got != *listJobsFlag {
		t.Fatalf("%d jobs; want %d", got, *listJobsFlag)
	}
	fmt.Printf("worker: %d %d\n", took, residentPeak(t))
}

// residentPeak is VmHWM: of this process's memory since exec, unlike getrusage's,
// which begins with the parent's.
func residentPeak(tb testing.TB) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib << 10
}

// TestListBody: the benchmark's body has the announced contents, and all ways to read the body agree.
func TestListBody(t *testing.T) {
	raw, err := io.ReadAll(newListBody(t, 4))
	if err != nil || !json.Valid(raw) {
		t.Fatalf("the body is not JSON: %v", err)
	}
	for way, count := range decoders {
		if got := count(t, newListBody(t, 100)); got != 100 {
			t.Errorf("%s: %d jobs; want 100", way, got)
		}
	}
	var ids []int64
	fields := answerFields.withFields(recordsField("jobs", v0045{modernVersion{V0045}}.jobTable(), func(j *Job) error {
		ids = append(ids, j.ID)
		if want := fmt.Sprintf("/home/user%d/project", len(ids)-1); j.WorkDir != want {
			t.Errorf("work dir %q; want %q", j.WorkDir, want)
		}
		return nil
	}))
	if _, err := decodeAnswer(newListBody(t, 3), roomy, fields); err != nil || !slices.Equal(ids, []int64{1000000, 1000001, 1000002}) {
		t.Errorf("ids of the jobs = %v, %v", ids, err)
	}
}
