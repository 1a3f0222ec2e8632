// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// askPage asks the page, and returns the status and the text.
func askPage(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

// TestPage: a token that munge vouches for lets a browser act, and the page says for which part preemptd waits, and
// whether preemptd works.
func TestPage(t *testing.T) {
	m := mungetest.Start(t)
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n0", State: slurmrest.NodeState{Base: "DOWN"}})
	id := srv.AddJob(slurmrest.Job{Batch: true, Requeueable: true})
	srv.StartJob(id, "n1")
	srv.Fail(slurmresttest.Fault{Times: 3, Drop: true})
	file := writeConfiguration(t, "munge_socket: "+m.Socket+"\n")
	p := startPreemptd(t, srv, file)
	page := "http://" + p.loggedAddress("web page")
	if code, said := askPage(t, "GET", page+"/healthz", "", ""); code != http.StatusOK || said != "alive\n" {
		t.Errorf("healthz: %d %q, want alive", code, said)
	}
	listen := p.loggedAddress("listening")
	client, err := rpc.Dial(listen, "n7", m.As(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Token(t.Context())
	if err != nil || reply.GetPage() != page+"/" || time.Until(reply.GetUntil().AsTime()) > time.Hour {
		t.Fatal(err, reply)
	}
	code, said := askPage(t, "POST", fmt.Sprintf("%s/api/v1/jobs/%d/preempt", page, id), reply.GetToken(), `{"reason":"from the page"}`)
	if code != http.StatusAccepted {
		t.Fatalf("preempt from the page: %d %q, want 202", code, said)
	}
	p.waitForLog("action ended") // the job cannot be preempted: no proxyd answers on n1
	if code, said := askPage(t, "GET", page+"/api/v1/state", "", ""); code != http.StatusOK || !strings.Contains(said, `"role":"works"`) || !strings.Contains(said, `"why":"from the page"`) {
		t.Errorf("state: %d %q", code, said)
	}
	if code, said := askPage(t, "GET", page+"/readyz", "", ""); code != http.StatusOK {
		t.Errorf("readyz: %d %q, want 200", code, said)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.waitForEnd()
	j, err := journal.Open(t.Context(), filepath.Join(filepath.Dir(file), "preemptd.db"), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if all, err := j.History(t.Context(), id, 10); err != nil || len(all) != 1 || all[0].Who != "root" || all[0].Kind != "preempt" {
		t.Errorf("history: %v, %+v, want root's preempt", err, all)
	}
}

// TestNoPage: without an address there is no page, and no token for a page.
func TestNoPage(t *testing.T) {
	m := mungetest.Start(t)
	srv := slurmresttest.Start(t, slurmresttest.Options{Cluster: "test"})
	srv.AddNode(slurmrest.Node{Name: "n0", State: slurmrest.NodeState{Base: "DOWN"}})
	file := writeConfiguration(t, "munge_socket: "+m.Socket+"\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "web: {address: 127.0.0.1:0}", `web: {address: ""}`)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := startPreemptd(t, srv, file)
	client, err := rpc.Dial(p.loggedAddress("listening"), "n7", m.As(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if reply, err := client.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "serves no web page") {
		t.Errorf("Token of a preemptd without a page = %v, %v", reply, err)
	}
}

// TestRegained: a preemptd that has the mandate again shows no snapshot from before another preemptd had the mandate.
func TestRegained(t *testing.T) {
	p := &webPage{now: web.State{Interval: time.Second}}
	p.Server = web.New(web.Options{State: p.currentState})
	seen := func() bool {
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return strings.Contains(w.Body.String(), "loop: saw the cluster")
	}
	p.setRole(web.Works, "")
	p.Tell(web.Tick{Snapshot: &sdk.Snapshot{Number: 1, Time: time.Now()}})
	if !seen() {
		t.Error("readyz does not say that the loop has looked")
	}
	p.setRole(web.Waits, "")
	p.setRole(web.Works, "")
	if seen() {
		t.Error("readyz counts a look from before the role changed")
	}
	p.Tell(web.Tick{Snapshot: &sdk.Snapshot{Number: 1, Time: time.Now()}})
	if !seen() {
		t.Error("readyz does not say that the loop has looked again")
	}
}
