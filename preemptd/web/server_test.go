// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// came is an answer without its body.
type came struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// sendRequest sends a request and returns the answer and its body.
func (s *site) sendRequest(method, path, token, body string, headers ...string) (came, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.address+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return came{answer.StatusCode, answer.Status, answer.Header}, string(raw)
}

func (s *site) getJSON(path string, into any) {
	s.Helper()
	answer, body := s.sendRequest("GET", path, "", "")
	if answer.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s: %s", path, answer.Status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		s.Fatalf("%s: %v: %s", path, err, body)
	}
}

// TestHeaders: with every answer, the browser is told what the page may not do.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	for path, code := range map[string]int{
		"/": 200, "/app.js": 200, "/style.css": 200, "/nothing.js": 404, "/api/v1/state": 200, "/api/v1/cluster": 200, "/api/v1/me": 401, "/api/v2/x": 404, "/healthz": 200,
	} {
		answer, _ := s.sendRequest("GET", path, "", "")
		h := answer.Header
		if answer.StatusCode != code || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("GET %s: %s, headers %v", path, answer.Status, h)
		}
	}
	if answer, _ := s.sendRequest("POST", "/", "", ""); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %s, want 405", answer.Status)
	}
	// The first question of another site's page, and a request that such a page could make without it.
	if answer, _ := s.sendRequest("OPTIONS", "/api/v1/jobs/1/preempt", "", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); answer.StatusCode/100 == 2 {
		t.Errorf("OPTIONS of another site: %s, want a refusal", answer.Status)
	}
}

// TestEverybody: the snapshot and the decisions can be read without a token, and no more.
func TestEverybody(t *testing.T) {
	s := newSite(t)
	var state struct {
		Role, Cluster, Holder string
		Number                uint64
		Totals                struct{ Nodes, Up, GPUs, Used, Usable, Running, Waiting, Held int }
		Tiers                 []struct {
			Name                string
			Promised, Delivered float64
			Below               int
			Unkept              string
		}
		Policies  []struct{ Name string }
		UnderWay  []struct{ Kind, Step string } `json:"under_way"`
		Recent    []struct{ Kind, State string }
		Decisions []struct {
			What, Reason, Outcome string
			Rejected              bool
			Times                 int
		}
	}
	s.getJSON("/api/v1/state", &state)
	if state.Number != 0 || state.Role != "works" || !strings.Contains(state.Holder, "process") {
		t.Errorf("state before the first tick = %+v", state)
	}
	s.writeJournal(t)
	last := newSnapshot(16, 1, time.Now())
	last.Jobs[0].Tier, last.Jobs[0].Promised, last.Jobs[0].Request = sdk.Premium, 1, 1000
	again := *last
	again.Number = 2
	for _, one := range []*sdk.Snapshot{last, &again} {
		s.page.Tell(web.Tick{Snapshot: one, Decisions: []web.Decision{{Policy: "tiers", Job: 1, What: "preempt job 1", Reason: "why", Outcome: "waits for job 2"}}})
	}
	for state.Number == 0 { // an answer made a moment ago is sent again
		s.getJSON("/api/v1/state", &state)
	}
	if state.Totals.Nodes != 16 || state.Totals.Up != 14 || state.Totals.GPUs != 128 || state.Totals.Usable != 14*8-1 || state.Totals.Used == 0 ||
		state.Totals.Waiting != 4 || state.Totals.Held != 2 || len(state.Policies) != 2 {
		t.Errorf("state after two ticks = %+v", state)
	}
	if len(state.Tiers) != 3 || state.Tiers[0].Name != "premium" || state.Tiers[0].Promised != .95 || state.Tiers[0].Delivered >= 1 || !strings.HasSuffix(state.Tiers[0].Unkept, " GPUs are promised, 111 are there") || state.Tiers[2].Unkept != "" {
		t.Errorf("tiers = %+v", state.Tiers)
	}
	if len(state.UnderWay) != 1 || state.UnderWay[0].Step != "checkpoint" || len(state.Recent) != 2 {
		t.Errorf("actions under way %+v, recent %+v", state.UnderWay, state.Recent)
	}
	if len(state.Decisions) != 1 || state.Decisions[0].Times != 2 || state.Decisions[0].Reason != "why" {
		t.Errorf("decisions = %+v, want one, made twice", state.Decisions)
	}
	if _, body := s.sendRequest("GET", "/api/v1/state", "", ""); strings.Contains(body, "a problem") {
		t.Error("without a token, the state has a problem of preemptd")
	}
}

// TestSame: an answer that has not changed is not sent again, and a long answer is compressed.
func TestSame(t *testing.T) {
	s := newSite(t)
	s.page.Tell(web.Tick{Snapshot: newSnapshot(100, 1, time.Now())})
	answer, body := s.sendRequest("GET", "/api/v1/cluster", "", "", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, answer.Header)
	}
	var cluster struct {
		Number uint64
		Nodes  []struct {
			Name, State string
			GPUs        int
			Bad         []int
		}
		Jobs []struct {
			Label, Name, Tier, State string
			Shares                   []struct {
				Node int
				GPUs []int
			}
		}
	}
	if err := json.NewDecoder(z).Decode(&cluster); err != nil {
		t.Fatal(err)
	}
	if len(cluster.Nodes) != 100 || cluster.Nodes[5].Bad[0] != 6 || cluster.Nodes[14].State != "down" || cluster.Jobs[0].Label != "1" ||
		cluster.Jobs[0].State != "running" || len(cluster.Jobs[0].Shares[0].GPUs) != 8 {
		t.Errorf("cluster = %+v", cluster)
	}
	tag := answer.Header.Get("ETag")
	if answer, body := s.sendRequest("GET", "/api/v1/cluster", "", "", "If-None-Match", tag); answer.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("with the same ETag: %s and %d bytes, want 304 without a body", answer.Status, len(body))
	}
	s.page.Tell(web.Tick{Snapshot: newSnapshot(100, 2, time.Now())})
	if answer, _ := s.sendRequest("GET", "/api/v1/cluster", "", "", "If-None-Match", tag); answer.StatusCode != http.StatusOK {
		t.Errorf("with the ETag of an earlier tick: %s, want 200", answer.Status)
	}
	// A preemptd that waits for another preemptd does not show an earlier look.
	s.changeState(func(now *web.State) { now.Role = web.Waits })
	if s.getJSON("/api/v1/cluster", &cluster); cluster.Number != 0 || len(cluster.Nodes) != 0 {
		t.Errorf("cluster of a preemptd that waits = %+v, want it empty", cluster)
	}
}

// TestNodes: how each node's proxyd is, in natural order; a preemptd that waits for another shows no nodes.
func TestNodes(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	all := someProxyds(48, now)
	all[0], all[47] = all[47], all[0]
	s.changeState(func(st *web.State) { st.Proxyds = func() []web.Proxyd { return all } })
	type space struct{ Size, Free uint64 }
	var said struct {
		Nodes []struct {
			Name, Proxyd, Problem, Version, Devices string
			Since, Heard                            int64
			Says                                    bool
			Store, Stage                            *space
			Capsules                                int
		}
	}
	s.getJSON("/api/v1/nodes", &said)
	if len(said.Nodes) != 48 || said.Nodes[0].Name != "gpu00001" || said.Nodes[47].Name != "gpu00048" {
		t.Fatalf("nodes = %+v, want gpu00001 to gpu00048", said)
	}
	if n := said.Nodes[1]; n.Proxyd != "answers" || !n.Says || n.Since != now.Add(-time.Hour).Unix() || n.Heard != 0 || n.Version != "1.2.3" || n.Devices != "cuda" || n.Capsules != 1 ||
		n.Store.Size != 100<<40 || n.Store.Free != 40<<40 || n.Stage.Size != 1<<40 {
		t.Errorf("node gpu00002 = %+v, its store %+v", n, n.Store)
	}
	if n := said.Nodes[4]; n.Proxyd != "silent" || n.Heard != 0 || n.Since != now.Add(-time.Minute).Unix() || n.Store != nil {
		t.Errorf("never answered: %+v", n)
	}
	if n := said.Nodes[9]; n.Proxyd != "silent" || n.Heard != now.Add(-time.Minute).Unix() || n.Version != "1.2.3" {
		t.Errorf("has ceased to answer: %+v", n)
	}
	if n := said.Nodes[2]; n.Proxyd != "answers" || !strings.Contains(n.Problem, "shared folder") || n.Store != nil {
		t.Errorf("has lost the shared folder: %+v", n)
	}
	if n := said.Nodes[11]; n.Proxyd != "answers" || n.Says || n.Version != "0.9" || n.Problem != "" {
		t.Errorf("an older release: %+v", n)
	}
	if n := said.Nodes[30]; n.Proxyd != "unasked" {
		t.Errorf("a node that was not asked yet: %+v", n)
	}
	var state struct {
		Proxyds struct{ Nodes, Answer, Silent, Unsound int }
	}
	if s.getJSON("/api/v1/state", &state); state.Proxyds != struct{ Nodes, Answer, Silent, Unsound int }{48, 45, 2, 1} {
		t.Errorf("counts of proxyds = %+v", state)
	}
	s.changeState(func(st *web.State) { st.Role = web.Waits })
	if s.getJSON("/api/v1/nodes", &said); len(said.Nodes) != 0 {
		t.Errorf("nodes of a preemptd that waits = %+v, want none", said)
	}
}

// TestTimeline: a job's life is there in its parts, from before the first look to its end.
func TestTimeline(t *testing.T) {
	s := newSite(t)
	start := time.Now().Add(-time.Hour).Truncate(time.Second)
	see := func(number uint64, minute int, change func(*sdk.Job)) {
		j := sdk.Job{ID: 1, Label: "1", Name: "train", User: "alice", State: sdk.Running, Started: start, GPUs: 8, Shares: []sdk.Share{{GPUs: 0xff}}}
		one := &sdk.Snapshot{Number: number, Time: start.Add(time.Duration(minute) * time.Minute), Nodes: []sdk.Node{{Name: "n1", GPUs: make([]sdk.GPU, 8)}}, Jobs: []sdk.Job{j}}
		if change(&one.Jobs[0]); one.Jobs[0].ID == 0 {
			one.Jobs = nil
		}
		s.page.Tell(web.Tick{Snapshot: one})
	}
	see(1, 10, func(*sdk.Job) {})
	see(2, 11, func(*sdk.Job) {})
	see(3, 20, func(j *sdk.Job) { j.State = sdk.Leaving })
	see(4, 21, func(j *sdk.Job) {
		j.State, j.Shares, j.Eligible = sdk.Waiting, nil, start.Add(20*time.Minute+30*time.Second)
	})
	see(5, 30, func(j *sdk.Job) { j.Started, j.GPUs = start.Add(25*time.Minute), 4 })
	see(6, 40, func(j *sdk.Job) { *j = sdk.Job{} })
	var all struct {
		From, To int64
		Jobs     []struct {
			Label string
			Parts []struct {
				From, To int64
				State    string
				GPUs     int
			}
			Marks []struct{ Kind, Who, Why string }
		}
	}
	if _, err := s.journal.Begin(t.Context(), journal.Request{Kind: "preempt", Job: 1, Who: "bob", Why: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.journal.Note(t.Context(), journal.Event{Job: 1, Restarts: 1, What: "node failed", At: start.Add(20 * time.Minute), Text: "n1"}); err != nil {
		t.Fatal(err)
	}
	s.getJSON("/api/v1/timeline?hours=2&match=train", &all)
	if len(all.Jobs) != 1 || len(all.Jobs[0].Parts) != 4 || len(all.Jobs[0].Marks) != 2 || all.Jobs[0].Marks[0].Who != "bob" || all.Jobs[0].Marks[1].Why != "n1" {
		t.Fatalf("timeline of jobs named train = %+v", all)
	}
	for i, want := range []struct {
		from, to int
		state    string
		gpus     int
	}{{0, 1200, "running", 8}, {1200, 1230, "leaving", 8}, {1230, 1500, "waiting", 0}, {1500, 2400, "running", 4}} {
		p := all.Jobs[0].Parts[i]
		if p.From != start.Unix()+int64(want.from) || p.To != start.Unix()+int64(want.to) || p.State != want.state || p.GPUs != want.gpus {
			t.Errorf("part %d of the time line = %+v, want %+v", i, p, want)
		}
	}
	if s.getJSON("/api/v1/timeline?match=other", &all); len(all.Jobs) != 0 {
		t.Errorf("timeline of jobs named other = %+v, want none", all)
	}
	for _, query := range []string{"hours=0", "hours=25", "hours=x", "limit=501", "match=" + strings.Repeat("a", 101), "match=%ff"} {
		if answer, _ := s.sendRequest("GET", "/api/v1/timeline?"+query, "", ""); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("timeline?%s: %s, want 400", query, answer.Status)
		}
	}
}

// TestJobPast: the decisions for a job, the actions on it and its checkpoints, newest first, and none of other jobs.
func TestJobPast(t *testing.T) {
	s := newSite(t)
	s.writeJournal(t)
	if err := s.journal.Note(t.Context(), journal.Event{Job: 3, Restarts: 1, What: "node failed", At: time.Now(), Text: "n1"}); err != nil {
		t.Fatal(err)
	}
	s.page.Tell(web.Tick{Snapshot: newSnapshot(16, 1, time.Now()), Decisions: []web.Decision{
		{Policy: "tiers", Job: 3, What: "preempt job 3", Reason: "why", Outcome: "waits for job 2"}, {Policy: "tiers", Job: 4, What: "preempt job 4"},
	}})
	var past struct {
		Actions     []struct{ Kind, Who, Why, State string }
		Events      []struct{ What, Text string }
		Decisions   []struct{ What, Reason, Outcome string }
		Checkpoints []struct {
			Number    int
			Captured  int64
			Took      float64
			Nodes     []string
			Uploading bool
		}
	}
	s.getJSON("/api/v1/jobs/3", &past)
	if len(past.Actions) != 1 || past.Actions[0].Who != "policy drain" || past.Actions[0].State != "done" {
		t.Errorf("actions %+v", past.Actions)
	}
	if len(past.Events) != 1 || past.Events[0].Text != "n1" || len(past.Decisions) != 1 || past.Decisions[0].Reason != "why" {
		t.Errorf("events %+v, decisions %+v", past.Events, past.Decisions)
	}
	if len(past.Checkpoints) != 2 || past.Checkpoints[0].Number != 2 || !past.Checkpoints[0].Uploading || past.Checkpoints[1].Took != 12 || len(past.Checkpoints[1].Nodes) != 2 {
		t.Errorf("checkpoints %+v", past.Checkpoints)
	}
	if s.getJSON("/api/v1/jobs/5", &past); len(past.Actions)+len(past.Events)+len(past.Decisions)+len(past.Checkpoints) != 0 {
		t.Errorf("past of job 5 = %+v, want it empty", past)
	}
	for _, job := range []string{"0", "x", "-1", "1_2"} {
		if answer, _ := s.sendRequest("GET", "/api/v1/jobs/"+job, "", ""); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("past of job %s: %s, want 400", job, answer.Status)
		}
	}
	// A preemptd that waits for another preemptd shows no checkpoints of an earlier look.
	s.changeState(func(now *web.State) { now.Role = web.Waits })
	if s.getJSON("/api/v1/jobs/13", &past); len(past.Actions) != 1 {
		t.Errorf("past of job 13 while preemptd waits = %+v", past)
	}
}

// TestObstacles: the owner of a job learns which part cannot be captured, and no other user does.
func TestObstacles(t *testing.T) {
	s := newSite(t)
	own, others := s.addJob(nobody), s.addJob(4_000_001_001)
	token, _ := s.keys.Sign(nobody)
	var all struct {
		Obstacles []struct{ Where, What, Cure string }
	}
	path := func(job int64) string { return fmt.Sprintf("/api/v1/jobs/%d/obstacles", job) }
	answer, body := s.sendRequest("GET", path(own), token, "")
	if err := json.Unmarshal([]byte(body), &all); err != nil || answer.StatusCode != http.StatusOK || len(all.Obstacles) != 1 || all.Obstacles[0].Cure != "close it" {
		t.Errorf("obstacles of the caller's job: %s, %s, %v", answer.Status, body, err)
	}
	for name, c := range map[string]struct {
		path, token string
		code        int
	}{
		"without a token": {path(own), "", 401}, "another user's": {path(others), token, 403}, "no number": {"/api/v1/jobs/x/obstacles", token, 400},
	} {
		if answer, body := s.sendRequest("GET", c.path, c.token, ""); answer.StatusCode != c.code {
			t.Errorf("obstacles, %s: %s %s", name, answer.Status, body)
		}
	}
	s.changeState(func(now *web.State) {
		now.Obstacles = func(context.Context, int64) ([]web.Obstacle, error) { return nil, errors.New("node n1: no route") }
	})
	if answer, body := s.sendRequest("GET", path(own), token, ""); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "no route") {
		t.Errorf("obstacles while the node is away: %s %s, want 503", answer.Status, body)
	}
}

// TestRefused: the answer names the mistake in a request, and no action is begun.
func TestRefused(t *testing.T) {
	s := newSite(t)
	s.addJob(nobody)
	s.addJob(4_000_001_001)
	own, _ := s.keys.Sign(nobody)
	foreign, _ := web.NewKeys().Sign(nobody)
	const js = "application/json"
	for name, c := range map[string]struct {
		path, token, kind, body string
		code                    int
		said                    string
	}{
		"no token":       {"/api/v1/jobs/1/preempt", "", js, "{}", 401, "Authorization: Bearer TOKEN"},
		"other keys":     {"/api/v1/jobs/1/preempt", foreign, js, "{}", 401, "not of this preemptd"},
		"cut short":      {"/api/v1/jobs/1/preempt", own[:len(own)-2], js, "{}", 401, "not of this preemptd"},
		"a form":         {"/api/v1/jobs/1/preempt", own, "application/x-www-form-urlencoded", "{}", 400, "Content-Type"},
		"no JSON":        {"/api/v1/jobs/1/preempt", own, js, "{", 400, "body"},
		"two objects":    {"/api/v1/jobs/1/preempt", own, js, "{}{}", 400, "want one object"},
		"unknown field":  {"/api/v1/jobs/1/preempt", own, js, `{"noeds":["n1"]}`, 400, "noeds"},
		"too long":       {"/api/v1/jobs/1/preempt", own, js, `{"reason":"` + strings.Repeat("a", 1<<17) + `"}`, 400, "too large"},
		"no such verb":   {"/api/v1/jobs/1/cancel", own, js, "{}", 400, "want one of preempt"},
		"another's job":  {"/api/v1/jobs/2/preempt", own, js, "{}", 403, "belongs to another user"},
		"no such job":    {"/api/v1/jobs/99/preempt", own, js, "{}", 404, "Slurm knows none"},
		"more GPUs":      {"/api/v1/jobs/1/resize", own, js, `{"gpus":64}`, 403, "only operators"},
		"control in why": {"/api/v1/jobs/1/preempt", own, js, `{"reason":"a\nb"}`, 400, "one line"},
	} {
		answer, body := s.sendRequest("POST", c.path, c.token, c.body, "Content-Type", c.kind)
		if answer.StatusCode != c.code || !strings.Contains(body, c.said) {
			t.Errorf("POST with %s: %s %s", name, answer.Status, body)
		}
	}
	if all, err := s.journal.History(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("after refused requests: %v, history %+v, want none", err, all)
	}
	answer, body := s.sendRequest("POST", "/api/v1/jobs/1/preempt", own, `{"reason":"a fan"}`, "Content-Type", js)
	if answer.StatusCode != http.StatusAccepted || !strings.Contains(body, `"why":"a fan"`) {
		t.Fatalf("preempt of the caller's job: %s %s, want 202", answer.Status, body)
	}
	if answer, body := s.sendRequest("POST", "/api/v1/jobs/1/preempt", own, "{}", "Content-Type", js); answer.StatusCode != http.StatusConflict || !strings.Contains(body, "singctl history 1") {
		t.Errorf("preempt again: %s %s, want 409", answer.Status, body)
	}
	if answer, body := s.sendRequest("GET", "/api/v1/actions/1", own, ""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `"lines":[{`) {
		t.Errorf("the action: %s %s", answer.Status, body)
	}
	if answer, body := s.sendRequest("GET", "/api/v1/me", own, ""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `"operator":false`) || strings.Contains(body, "a problem") {
		t.Errorf("me of a user: %s %s", answer.Status, body)
	}
	root, _ := s.keys.Sign(0)
	if answer, body := s.sendRequest("GET", "/api/v1/me", root, ""); answer.StatusCode != http.StatusOK || !strings.Contains(body, `"operator":true`) || !strings.Contains(body, "a problem") {
		t.Errorf("me of root: %s %s", answer.Status, body)
	}
	s.changeState(func(now *web.State) { now.Requests = nil })
	if answer, body := s.sendRequest("POST", "/api/v1/jobs/1/preempt", own, "{}", "Content-Type", js); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "does not work now") {
		t.Errorf("preempt while preemptd does not work: %s %s, want 503", answer.Status, body)
	}
}

// TestPlain: a token that came over a network in plain text is not taken.
func TestPlain(t *testing.T) {
	s := newSite(t)
	token, _ := s.keys.Sign(nobody)
	for name, c := range map[string]struct {
		address string
		tls     *tls.ConnectionState
		code    int
	}{
		"loopback":       {"127.0.0.1", nil, 200},
		"plain":          {"192.0.2.1", nil, 401},
		"TLS":            {"192.0.2.1", &tls.ConnectionState{}, 200},
		"loopback, IPv6": {"::1", nil, 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/me", nil)
		r = r.WithContext(contextWith(r, &net.TCPAddr{IP: net.ParseIP(c.address)}))
		r.Host, r.TLS = "localhost", c.tls
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.page.Handler().ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("token, %s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestReady: each fault that keeps preemptd from its work is named.
func TestReady(t *testing.T) {
	s := newSite(t)
	s.changeState(func(now *web.State) { now.Slurm = func(ctx ctx) error { return nil } })
	for name, c := range map[string]struct {
		change func(*web.State)
		tick   time.Duration // ago
		code   int
		said   string
	}{
		"works":      {func(*web.State) {}, time.Second, 200, "role: works\njournal: open"},
		"stands by":  {func(now *web.State) { now.Role = web.Waits }, 0, 200, "role: waits\n"},
		"waits for":  {func(now *web.State) { now.Role, now.Holder = web.Waits, "n7, process 8" }, 0, 200, "role: waits for n7, process 8\n"},
		"starts":     {func(now *web.State) { now.Role, now.Journal = web.Starts, nil }, 0, 503, "journal: not ready: not reached yet\n"},
		"blind":      {func(*web.State) {}, time.Hour, 503, "loop: not ready: saw the cluster 1h0m0s ago\n"},
		"no journal": {func(now *web.State) { now.Journal = broken{now.Journal} }, time.Second, 503, "journal: not ready: disk is gone\n"},
	} {
		t.Run(name, func(t *testing.T) {
			was := s.readState()
			s.changeState(c.change)
			if c.tick != 0 {
				s.page.Tell(web.Tick{Snapshot: newSnapshot(1, 1, time.Now().Add(-c.tick))})
			}
			if answer, body := s.sendRequest("GET", "/readyz", "", ""); answer.StatusCode != c.code || !strings.Contains(body, c.said) {
				t.Errorf("readyz: %s\n%s", answer.Status, body)
			}
			s.changeState(func(now *web.State) { *now = was })
		})
	}
}

// TestNoSlurm: the page says that slurmrestd is away, and asks slurmrestd once for many visitors.
func TestNoSlurm(t *testing.T) {
	s := newSite(t)
	s.srv.Fail(slurmresttest.Fault{Times: 1000, Status: 500})
	asked := 0
	was := s.readState().Slurm
	s.changeState(func(now *web.State) { now.Slurm = func(c ctx) error { asked++; return was(c) } })
	for range 20 {
		if answer, body := s.sendRequest("GET", "/readyz", "", ""); answer.StatusCode != 503 || !strings.Contains(body, "slurmrestd: not ready: ") {
			t.Fatalf("readyz while slurmrestd fails: %s %s, want 503", answer.Status, body)
		}
	}
	if asked > 10 {
		t.Errorf("asked %d times", asked)
	}
}

type broken struct{ web.Journal }

func (broken) Mandate(ctx) (journal.Mandate, error) {
	return journal.Mandate{}, errors.New("disk is gone")
}

type ctx = context.Context

// contextWith is a request's, with an address to which the request has come.
func contextWith(r *http.Request, at net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, at)
}
